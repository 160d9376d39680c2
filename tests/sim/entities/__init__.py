"""Tests of fakedev/sim/entities."""
