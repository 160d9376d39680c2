"""Tests of fakedev.net.scenario."""
