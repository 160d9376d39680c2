"""Tests of fakedev/kube."""
