"""Tests of fakedev/config."""
