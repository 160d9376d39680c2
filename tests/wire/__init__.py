"""Tests of fakedev/wire."""
