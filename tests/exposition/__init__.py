"""Tests of fakedev/exposition."""
