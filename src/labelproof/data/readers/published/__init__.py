"""Benchmark sets in the form in which they are published, found below `--data-dir`."""
