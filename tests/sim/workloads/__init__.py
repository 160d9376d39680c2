"""Tests of fakedev/sim/workloads."""
