"""Tests that start real programs."""
