"""How a job can end: one name for each outcome on all sides."""

from __future__ import annotations

from enum import Enum


class Outcome(Enum):
    """How a request ended."""

    SUCCESS = "success"
    #: The command's exit code was not 0, or the backend could not run it.
    FAILURE = "failure"
    #: It ran longer than it might.
    TIMEOUT = "timeout"
    #: Somebody cancelled it, its client left, or the queue was closed down.
    CANCELLED = "cancelled"
    #: Its backend left without a result.
    LOST = "lost"
    #: It was never taken in.
    REFUSED = "refused"
