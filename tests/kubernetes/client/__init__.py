"""Tests of kubernetes."""
