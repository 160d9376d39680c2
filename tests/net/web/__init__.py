"""Tests of fakedev/net/web."""
