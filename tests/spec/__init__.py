"""Tests of fakedev/spec."""
