"""Tests of fakedev/node."""
