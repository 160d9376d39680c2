"""Tests of fakedev/tester."""
