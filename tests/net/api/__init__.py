"""Tests of fakedev/net/api."""
