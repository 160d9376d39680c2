"""Tests of fakedev/config/schema."""
