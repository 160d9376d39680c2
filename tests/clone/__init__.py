"""Tests of what a clone is made of."""
