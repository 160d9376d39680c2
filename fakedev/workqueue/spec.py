"""The configuration of the queues, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: The time that a maximum covers: the last ``window_seconds``; the time since the last scrape, as in the original
#: program; or the last ``interval_seconds``, similar to the original program with -interval.
Maxima = Literal["window", "since-scrape", "interval"]

MIB = 2**20


@dataclass(frozen=True)
class QueueSpec:
    """One queue.

    :param max_waiting: requests that may wait; 0 for no limit.
    :param retries: how often a job returns to the queue after its worker disconnected.
    :param run_time_limit_seconds: for requests without a limit; 0 for none.
    :param grace_seconds: how long after its limit a job is ended if its worker sends no result.
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
