"""Tests of fakedev."""
