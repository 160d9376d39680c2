"""How requests end: outcomes, the reports of workers and the answers to clients."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Outcome(enum.Enum):
    """How a request ended: the same word in answers, counters and metrics."""

    SUCCESS = "success"
    FAILURE = "failure"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    LOST = "lost"
    REFUSED = "refused"

    __hash__ = object.__hash__  # faster, as members are unique objects

    def __init__(self, text: str) -> None:
        self.text = text  #: the value; ``value`` itself is a property of Python and takes ten times as long


@dataclass(slots=True)
class Report:
    """A worker's report of a run.

    :param error: why it failed, in words; empty if it did not.
    :param timeout_seconds: the time limit, if the worker ended the run because of it; else 0.
    :param run_seconds: how long it ran; None if the worker did not measure it.
    :param pod, node, device: where it ran; empty for the worker's own values.
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
    """The answer to a client whose request has ended.

    :param exit_code: 0 with success only.
    :param error: the reason, in words; empty with success.
    :param timeout_seconds: greater than 0 with a time-out only.
    :param wait_seconds: from its arrival until a worker got it last, or until its end.
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
    """The outcome of a run, according to its report."""
    if report.timeout_seconds > 0:
        return Outcome.TIMEOUT
    return Outcome.FAILURE if report.exit_code or report.error else Outcome.SUCCESS


def refusal(text: str) -> Answer:
    """The answer to a client whose request was not accepted."""
    return Answer(Outcome.REFUSED, error=text)
