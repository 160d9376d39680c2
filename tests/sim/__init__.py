"""Tests of fakedev/sim."""
