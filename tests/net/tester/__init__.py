"""Tests of fakedev/net/tester."""
