"""Tests of fakedev/testing."""
