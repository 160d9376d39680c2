"""The reactor of a program: what the program uses of it, its steady clock, and its lookup of host names."""

from __future__ import annotations

import sys
from typing import cast

from twisted.internet.interfaces import (
    IReactorCore,
    IReactorFDSet,
    IReactorPluggableNameResolver,
    IReactorProcess,
    IReactorSocket,
    IReactorTCP,
    IReactorThreads,
    IReactorTime,
    IReactorUNIX,
)
from twisted.internet.main import installReactor

from fakedev.runtime.clock import SteadyClock
from fakedev.runtime.threads import PatientResolver

try:
    from twisted.internet.epollreactor import EPollReactor as UsualReactor
except ImportError:  # not on Linux
    from twisted.internet.selectreactor import SelectReactor as UsualReactor


class IReactor(
    IReactorCore, IReactorTime, IReactorFDSet, IReactorSocket, IReactorTCP, IReactorUNIX, IReactorThreads,
    IReactorProcess, IReactorPluggableNameResolver,
):  # fmt: skip
    """What fakedev uses of a reactor."""


class SteadyReactor(SteadyClock, UsualReactor):
    """Twisted's usual reactor with a clock that nobody can set."""

    def __init__(self) -> None:
        SteadyClock.__init__(self)
        UsualReactor.__init__(self)


def program_reactor() -> IReactor:
    """The reactor of a program; a steady one, unless another one was chosen (``twistd --reactor``)."""
    if "twisted.internet.reactor" not in sys.modules:
        installReactor(SteadyReactor())
    from twisted.internet import reactor  # noqa: PLC0415 - importing it installs one

    found = cast(IReactor, reactor)
    found.installNameResolver(PatientResolver(found))
    return found
