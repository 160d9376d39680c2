"""Tests of fakedev/sim/boards."""
