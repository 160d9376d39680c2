"""Tests of fakedev.commands.scenario."""
