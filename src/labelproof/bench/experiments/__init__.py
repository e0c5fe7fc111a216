"""A file for an experiment, or for two of one form; `NAMES` in `bench.asked` lists them all."""
