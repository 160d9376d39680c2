"""Tests of fakedev/net/backend."""
