"""Tests of fakedev/app."""
