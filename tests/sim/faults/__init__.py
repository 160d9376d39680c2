"""Tests of fakedev/sim/faults."""
