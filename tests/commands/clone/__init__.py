"""Tests of ``fakedev clone``."""
