"""Tests of fakedev/sim/tallies."""
