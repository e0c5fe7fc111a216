"""One file an experiment; `NAMES` in `bench.asked` lists them all."""
