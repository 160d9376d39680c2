"""Tests of clone."""
