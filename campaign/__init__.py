"""The reliability campaign: attacks on the package from outside. Run it with `make campaign`."""
