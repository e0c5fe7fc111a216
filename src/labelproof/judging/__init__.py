"""Probabilities to rely on, and which labels to doubt, from noisy labels alone."""

from labelproof.choices import How
from labelproof.judging.calibration import Calibration, calibrate, calibrated

__all__ = ["Calibration", "How", "calibrate", "calibrated"]
