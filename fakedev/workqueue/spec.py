"""What a configuration says of the queues.

What the rules answer when something cannot be done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fakedev.spec import errors

#: What a shown maximum covers: the last ``window_seconds``; the time since the page was last asked for, as the
#: original has it; or the last ``interval_seconds``, near to what the original has with -interval.
Maxima = Literal["window", "since-scrape", "interval"]

MIB = 2**20


@dataclass(frozen=True)
class QueueSpec:
    """One queue.

    :param max_waiting: requests that may wait; 0 for no limit.
    :param retries: how often a job that its worker lost is offered again.
    :param run_time_limit_seconds: for requests that bring no limit; 0 for none.
    :param grace_seconds: how long after its limit a job is ended here, when its worker does not say that it is over.
    """

    name: str
    max_waiting: int = 0
    retries: int = 0
    run_time_limit_seconds: float = 0.0
    grace_seconds: float = 5.0


@dataclass(frozen=True)
class BrokerSpec:
    """All queues.

    :param max_bytes: of requests that wait or run, in all queues together.
    """

    queues: tuple[QueueSpec, ...]
    max_bytes: int = 256 * MIB
    window_seconds: float = 60.0
    maxima: Maxima = "window"
    interval_seconds: float = 0.0


class Refused(errors.Refused):
    """A request that the rules of the queues do not allow; its code is ``unknown-name``, ``full`` or ``busy``."""
