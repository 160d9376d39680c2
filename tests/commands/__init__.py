"""Tests of fakedev/commands."""
