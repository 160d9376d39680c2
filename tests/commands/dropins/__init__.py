"""Tests of fakedev/commands/dropins."""
