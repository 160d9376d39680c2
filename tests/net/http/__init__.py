"""Tests of fakedev/net/http."""
