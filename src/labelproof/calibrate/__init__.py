"""Probabilities to rely on, and which labels to doubt, from noisy labels alone."""

from labelproof.calibrate.fitting import Calibration, calibrate, calibrated

__all__ = ["Calibration", "calibrate", "calibrated"]
