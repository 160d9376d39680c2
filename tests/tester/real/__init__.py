"""Tests of tester."""
