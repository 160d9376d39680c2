"""Calibration: from a recorded run of a real board to the coefficients of its device type."""
