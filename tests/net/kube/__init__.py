"""Tests of fakedev/net/kube."""
