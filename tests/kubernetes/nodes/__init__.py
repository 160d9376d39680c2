"""Tests of simulated nodes and of the port of fakedev-node."""
