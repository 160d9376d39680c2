"""Tests of fakedev/workqueue."""
