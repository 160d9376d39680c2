"""Tells ``twistd`` of fakedev without importing it."""

from twisted.application.service import ServiceMaker

fakedev = ServiceMaker("fakedev", "fakedev.tap", "Simulate fleets of accelerators for monitoring", "fakedev")
