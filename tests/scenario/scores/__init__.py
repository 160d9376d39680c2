"""Tests of scores and of upgrades."""
