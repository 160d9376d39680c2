"""The configuration of the queues, as frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fakedev.spec.settings import setting

#: The time that a maximum covers: the last ``window_seconds``; the time since the last scrape, as in the original
#: program; or the last ``interval_seconds``, similar to the original program with -interval.
Maxima = Literal["window", "since-scrape", "interval"]

MIB = 2**20


@dataclass(frozen=True)
class QueueSpec:
    """One queue. Its settings are keys of the configuration: ``max-waiting``, ``grace`` for ``grace_seconds``."""

    name: str
    max_waiting: int = setting(
        "Requests that may wait; one more is refused. 0: no limit but that of the bytes.", default=0, high=100_000_000
    )
    retries: int = setting(
        "How often a job whose backend disconnected is offered again, before it is buried. "
        "0: its client gets the result at once.",
        default=0,
        high=1000,
    )
    run_time_limit_seconds: float = setting("Run-time limit of requests without one.", default=0.0)
    grace_seconds: float = setting(
        "How long after its limit a job is ended, when its backend is silent.", default=5.0, high=86_400
    )
    durable: str = setting(
        "A folder in which the queue keeps its requests, so that they survive a restart and their clients; "
        "made if it is not there, and for this queue alone.",
        default="",
    )


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
