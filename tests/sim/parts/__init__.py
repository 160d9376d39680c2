"""Tests of fakedev/sim/parts."""
