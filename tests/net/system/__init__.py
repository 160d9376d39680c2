"""Tests of fakedev/net/system."""
