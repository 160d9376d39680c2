"""Work in a thread: long computations, which let the reactor run often, and calls that wait."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

Outcome = TypeVar("Outcome")

#: How long the thread may run before the reactor gets its turn. Python's usual 5 ms would pass each time the reactor
#: has waited for something, which is at each socket and at each step of a tick: many times in one reactor turn.
_SWITCH_SECONDS: Final = 0.0001


def call_in_thread(reactor: Any, work: Callable[[], Outcome]) -> Deferred[Outcome]:
    """Call a function in a thread.

    :returns: fires with its result, or fails with its exception.
    """
    usual_seconds = sys.getswitchinterval()
    is_first = usual_seconds > 2 * _SWITCH_SECONDS  # else another call runs, and restores the interval
    if is_first:
        sys.setswitchinterval(_SWITCH_SECONDS)

    def ended(outcome: Outcome) -> Outcome:
        if is_first:
            sys.setswitchinterval(usual_seconds)
        return outcome

    return wait_in_thread(reactor, work).addBoth(ended)


def wait_in_thread(reactor: Any, work: Callable[[], Outcome]) -> Deferred[Outcome]:
    """Call a function that waits, as for a disk, in a thread.

    :returns: fires with its result, or fails with its exception.
    """
    done: Deferred[Outcome] = deferToThreadPool(reactor, reactor.getThreadPool(), work)
    return done
