"""Tests of fakedev/client."""
