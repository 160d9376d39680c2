"""Tests of fakedev/net."""
