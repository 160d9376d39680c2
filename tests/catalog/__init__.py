"""Tests of fakedev/catalog."""
