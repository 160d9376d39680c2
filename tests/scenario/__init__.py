"""Tests of fakedev.scenario."""
