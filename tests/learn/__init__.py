"""Tests of fakedev.learn."""
