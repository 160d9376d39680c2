"""Tests of fakedev/calibration."""
