"""Experiments as grids of runs: every cell is a run folder, every table can be made again."""
