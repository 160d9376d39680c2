"""Tests of fakedev/commands/workload."""
