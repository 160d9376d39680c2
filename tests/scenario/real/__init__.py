"""Tests of scenario."""
