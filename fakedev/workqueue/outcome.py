"""How requests end, and what is told of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Outcome(enum.Enum):
    """How a request ended: one name for it in answers, counters and metrics."""

    SUCCESS = "success"
    FAILURE = "failure"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    LOST = "lost"
    REFUSED = "refused"

    __hash__ = object.__hash__  # members are single objects, and this is asked often


@dataclass(slots=True)
class Report:
    """What a worker says of a run.

    :param error: why it failed, in words; empty when it did not.
    :param timeout_seconds: the time limit, when that was over and the worker ended the run for it; else 0.
    :param run_seconds: how long it ran; None when the worker did not measure it.
    :param pod, node, device: where it ran; empty for what the worker said of itself before.
    """

    exit_code: int = 0
    error: str = ""
    timeout_seconds: float = 0.0
    run_seconds: float | None = None
    pod: str = ""
    node: str = ""
    device: str = ""


@dataclass(slots=True)
class Answer:
    """What a client is told of a request that is over.

    :param exit_code: 0 with success only.
    :param error: why, in words; empty with success.
    :param timeout_seconds: greater than 0 with a time-out only.
    :param wait_seconds: from its arrival to the last time it was handed out, or to its end.
    """

    outcome: Outcome
    exit_code: int = 1
    error: str = ""
    timeout_seconds: float = 0.0
    run_seconds: float = 0.0
    wait_seconds: float = 0.0
    pod: str = ""
    node: str = ""
    device: str = ""


def outcome_of(report: Report) -> Outcome:
    """Which outcome a run had, by what its worker says."""
    if report.timeout_seconds > 0:
        return Outcome.TIMEOUT
    return Outcome.FAILURE if report.exit_code or report.error else Outcome.SUCCESS


def refusal(text: str) -> Answer:
    """What a client is told of a request that was not taken in."""
    return Answer(Outcome.REFUSED, error=text)
