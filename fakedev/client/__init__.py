"""The client of a running fakedev, for tests and programs: ``from fakedev.client import Fleet``.

It needs neither Twisted nor NumPy. doc/testing.md explains it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fakedev.client.calls import Clock
    from fakedev.client.fleet_client import Fleet
    from fakedev.client.http import FleetError, NeverTrue, NoAnswer, RequestRefused
    from fakedev.client.page_samples import Sample, Samples

#: The modules that touch the reactor, sockets, clocks, disks or the process; all others are pure.
OUTSIDE = ("aio", "calls", "fleet_client", "http")

__all__ = ["Clock", "Fleet", "FleetError", "NeverTrue", "NoAnswer", "RequestRefused", "Sample", "Samples"]


def __getattr__(name: str) -> object:
    """Import what is in ``__all__`` when it is used: ``fakedev status`` needs only the module ``http``."""
    if name in __all__:
        for module in ("http", "calls", "page_samples", "fleet_client"):
            found: object = getattr(import_module(f"{__name__}.{module}"), name, None)
            if found is not None:
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
