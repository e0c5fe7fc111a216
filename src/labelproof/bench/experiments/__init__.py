"""One file an experiment; `EXPERIMENTS` in `registry` names them all."""
