"""A file for an experiment, or for several of one form; `NAMES` in `bench.asked` lists all."""
