"""The client of a running fakedev, for tests and programs: ``from fakedev.client import Fleet``.

It needs neither Twisted nor NumPy. doc/testing.md explains it.
"""

from fakedev.client.calls import Clock
from fakedev.client.errors import FleetError, NeverTrue, NoAnswer, RequestRefused
from fakedev.client.fleet import Fleet
from fakedev.client.samples import Sample, Samples

__all__ = ["Clock", "Fleet", "FleetError", "NeverTrue", "NoAnswer", "RequestRefused", "Sample", "Samples"]
