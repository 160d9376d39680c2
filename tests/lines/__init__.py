"""Tests of lines."""
