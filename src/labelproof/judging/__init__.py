"""Probabilities to rely on, and which labels to doubt, from noisy labels alone."""

from labelproof.judging.calibration import Calibration, How, calibrate, calibrated

__all__ = ["Calibration", "How", "calibrate", "calibrated"]
