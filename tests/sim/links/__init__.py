"""Tests of fakedev/sim/links."""
