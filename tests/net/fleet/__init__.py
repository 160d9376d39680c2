"""Tests of fakedev/net/fleet."""
