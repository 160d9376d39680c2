"""Tests of fakedev.commands.alert_rules."""
