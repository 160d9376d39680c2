"""A request that was accepted, and the states it goes through.

Whom the broker deals with. The ports' peers are such parties; they are told things while the broker is at rest,
and may call it back at once. They must not raise.

How requests end, and what is told of it.

What a client is told of its request, made from what is known of it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol


class JobState(enum.Enum):
    """Where a job is in its life."""

    WAITING = "waiting"
    RUNNING = "running"
    BURIED = "buried"
    OVER = "over"

    __hash__ = object.__hash__  # members are single objects, and this is asked often


#: The moves that a job may make. A buried one has ended for its client; kick makes a new job of it.
MOVES: Final[Mapping[JobState, tuple[JobState, ...]]] = {
    JobState.WAITING: (JobState.RUNNING, JobState.OVER),
    JobState.RUNNING: (JobState.OVER, JobState.WAITING, JobState.BURIED),
    JobState.BURIED: (),
    JobState.OVER: (),
}


class Job:
    """A request of a client, from its acceptance on.

    :ivar id: unique in a broker, growing in the order of arrival.
    :ivar limit_seconds: of a run; 0 for none.
    :ivar size_bytes: what it counts for in ``max_bytes``.
    :ivar is_large: whether the original's backend could not read it.
    :ivar client: who is told the end; None for nobody.
    :ivar ticket: what the client knows it by.
    :ivar put_seconds: when it arrived.
    :ivar worker: who holds it; None unless it runs.
    :ivar taken_seconds: when it was handed out last.
    :ivar attempts: how often it was handed out.
    :ivar losses: how often its worker left.
    :ivar reason: why it was buried.
    """

    __slots__ = (
        "arguments", "attempts", "client", "id", "is_large", "limit_seconds", "losses", "put_seconds", "queue",
        "reason", "size_bytes", "state", "taken_seconds", "ticket", "worker",
    )  # fmt: skip

    def __init__(
        self,
        job_id: int,
        queue: str,
        arguments: tuple[str, ...],
        limit_seconds: float,
        size_bytes: int,
        is_large: bool,
        client: Client | None,
        ticket: object,
        put_seconds: float,
    ) -> None:
        self.id = job_id
        self.queue = queue
        self.arguments = arguments
        self.limit_seconds = limit_seconds
        self.size_bytes = size_bytes
        self.is_large = is_large
        self.client = client
        self.ticket = ticket
        self.put_seconds = put_seconds
        self.state = JobState.WAITING
        self.worker: Worker | None = None
        self.taken_seconds = 0.0
        self.attempts = 0
        self.losses = 0
        self.reason = ""

    def move_to(self, state: JobState) -> None:
        """Go on in its life.

        :raises ValueError: when there is no such move.
        """
        if state not in MOVES[self.state]:
            raise ValueError(f"job {self.id} is {self.state.value}, and cannot be {state.value}")
        self.state = state

    @property
    def wait_seconds(self) -> float:
        """How long it waited until it was handed out last."""
        return self.taken_seconds - self.put_seconds


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


class Client(Protocol):
    """Puts requests in."""

    def answered(self, job: Job, answer: Answer) -> None:
        """A request of this client is over; told once for each."""


class Worker(Protocol):
    """Takes jobs, and runs them.

    :ivar pod, node, device: where; answers to its jobs carry them. Empty when not known.
    """

    pod: str
    node: str
    device: str

    def offered(self, job: Job, ticket: object) -> None:
        """The job that this worker waited for is its now.

        :param ticket: what it gave to :meth:`Broker.wait`.
        """

    def nothing(self, queue: str, ticket: object) -> None:
        """It waited, and its time is over."""

    def withdrawn(self, job: Job, reason: str) -> None:
        """Nothing is wanted any more of a job that it held; the job is not its any more.

        :param reason: ``cancelled`` or ``timeout``.
        """


def answer_to(job: Job, report: Report, now: float) -> Answer:
    """The answer for a run of which its worker has told."""
    outcome = outcome_of(report)
    worker = job.worker
    exit_code, error = 0, ""
    if outcome is not Outcome.SUCCESS:
        exit_code, error = report.exit_code or 1, report.error or _error(outcome, report)
    return Answer(
        outcome,
        exit_code,
        error,
        report.timeout_seconds,
        now - job.taken_seconds if report.run_seconds is None else report.run_seconds,
        job.wait_seconds,
        report.pod or (worker.pod if worker else ""),
        report.node or (worker.node if worker else ""),
        report.device or (worker.device if worker else ""),
    )


def answer_without_report(job: Job, outcome: Outcome, error: str, now: float) -> Answer:
    """The answer for a request that ends here, whether it waits or runs."""
    worker = job.worker
    if worker is None:
        return Answer(outcome, error=error, wait_seconds=now - job.put_seconds)
    return Answer(
        outcome,
        error=error,
        timeout_seconds=job.limit_seconds if outcome is Outcome.TIMEOUT else 0.0,
        run_seconds=now - job.taken_seconds,
        wait_seconds=job.wait_seconds,
        pod=worker.pod,
        node=worker.node,
        device=worker.device,
    )


def _error(outcome: Outcome, report: Report) -> str:
    match outcome:
        case Outcome.FAILURE:
            return f"exit code {report.exit_code}"
        case Outcome.TIMEOUT:
            return f"the time limit of {report.timeout_seconds:g} s is over"
    return ""
