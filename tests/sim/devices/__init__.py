"""Tests of fakedev/sim/devices."""
