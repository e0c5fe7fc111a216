"""labelproof: classifiers you can trust on labels you cannot, and which of the labels are wrong."""

__version__ = "0.1.0"
