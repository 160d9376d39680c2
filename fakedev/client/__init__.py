"""The client of a running fakedev, for tests and programs: ``from fakedev.client import Fleet``.

It needs neither Twisted nor NumPy. doc/testing.md explains it.
"""

from fakedev.client.calls import Clock
from fakedev.client.fleet_client import Fleet
from fakedev.client.http import FleetError, NeverTrue, NoAnswer, RequestRefused
from fakedev.client.page_samples import Sample, Samples

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("aio", "calls", "fleet_client", "http")

__all__ = ["Clock", "Fleet", "FleetError", "NeverTrue", "NoAnswer", "RequestRefused", "Sample", "Samples"]
