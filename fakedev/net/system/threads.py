"""What takes long and is Python, beside the reactor: in a thread that gives way soon."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

Outcome = TypeVar("Outcome")

#: Python lets a thread compute for 5 ms whenever another one has waited for something, as the reactor does at each
#: socket, and at each step of a tick: many times over in one reactor turn. Meanwhile it is this.
_TURN_SECONDS: Final = 0.0001


def call_in_thread(reactor: Any, work: Callable[[], Outcome]) -> Deferred[Outcome]:
    """Do something in a thread, one such thing at a time.

    :returns: fires with what it returns, or fails with what it raises.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(_TURN_SECONDS)

    def over(outcome: Outcome) -> Outcome:
        sys.setswitchinterval(usual)
        return outcome

    done: Deferred[Outcome] = deferToThreadPool(reactor, reactor.getThreadPool(), work)
    return done.addBoth(over)
