"""Run folders: what a run is (spec), what it leaves, and how it is read back."""
