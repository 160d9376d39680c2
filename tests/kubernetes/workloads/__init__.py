"""Tests of what the fleet runs for pods."""
