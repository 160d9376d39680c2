"""Fleets in tests: a service in a process of its own, or a simulation in the test's process. See doc/testing.md."""
