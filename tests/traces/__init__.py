"""Tests of fakedev.traces."""
