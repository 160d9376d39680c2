"""Tests of fakedev/config/devices."""
