"""Tests of fakedev/net/lines."""
