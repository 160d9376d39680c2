"""Tests of fakedev/net/queues."""
