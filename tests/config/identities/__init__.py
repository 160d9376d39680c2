"""Tests of fakedev/config/identities."""
