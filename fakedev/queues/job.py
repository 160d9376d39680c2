"""A job, its states, its owners (the client and the worker), and its outcome.

A job is an accepted request. Its outcome follows from the report of the worker, and gives the answer to the client.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from zope.interface import Attribute, Interface


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
    if report.timeout_seconds > 0:
        return Outcome.TIMEOUT
    return Outcome.FAILURE if report.exit_code or report.error else Outcome.SUCCESS


def refusal(text: str) -> Answer:
    return Answer(Outcome.REFUSED, error=text)


class JobState(enum.Enum):
    """The states of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    BURIED = "buried"
    OVER = "over"

    __hash__ = object.__hash__  # faster, as members are unique objects


#: The allowed changes of state. A buried job has ended for its client; kick creates a new job from it.
TRANSITIONS: Final[Mapping[JobState, tuple[JobState, ...]]] = {
    JobState.WAITING: (JobState.RUNNING, JobState.OVER),
    JobState.RUNNING: (JobState.OVER, JobState.WAITING, JobState.BURIED),
    JobState.BURIED: (),
    JobState.OVER: (),
}


class IClient(Interface):
    """Sends requests.

    The broker calls clients and workers after each complete change. They may call the broker back at once, and must not
    raise.
    """

    def answered(job: Job, answer: Answer) -> None:
        """A request of this client has ended; called once for each."""


class IWorker(Interface):
    """Takes jobs, and runs them."""

    pod: str = Attribute("Where it runs, for the answers to its jobs; empty if not known.")
    node: str = Attribute("Likewise.")
    device: str = Attribute("Likewise.")

    def offered(job: Job, ticket: object) -> None:
        """This worker now holds the job that it waited for.

        :param ticket: the one from :meth:`Broker.wait`.
        """

    def wait_expired(queue: str, ticket: object) -> None:
        """The time of a wait is over, without a job."""

    def withdrawn(job: Job, reason: str) -> None:
        """This worker does not hold the job any more, and should stop the run.

        :param reason: ``cancelled`` or ``timeout``.
        """


@dataclass(slots=True, eq=False)
class Job:
    """A request of a client, from its acceptance on.

    :param id: unique in a broker, in the order of arrival.
    :param limit_seconds: run-time limit; 0 for none.
    :param size_bytes: counts towards ``max_bytes``.
    :param is_large: whether backends of the original programs cannot read it.
    :param client: receives the answer; None for no client.
    :param ticket: an object of the client's choice.
    :param put_seconds: when it arrived.
    :ivar worker: holds it; None unless it runs.
    :ivar taken_seconds: when a worker got it last.
    :ivar attempts: how often a worker got it.
    :ivar losses: how often its worker disconnected.
    :ivar reason: why it was buried.
    :ivar is_durable: whether its changes are in the log of its queue, so that it survives its client and a restart.
    """

    id: int
    queue: str
    arguments: tuple[str, ...]
    limit_seconds: float
    size_bytes: int
    is_large: bool
    client: IClient | None
    ticket: object
    put_seconds: float
    state: JobState = JobState.WAITING
    worker: IWorker | None = None
    taken_seconds: float = 0.0
    attempts: int = 0
    losses: int = 0
    reason: str = ""
    is_durable: bool = False

    def move_to(self, state: JobState) -> None:
        """Change the state.

        :raises ValueError: if the change is not allowed.
        """
        if state not in TRANSITIONS[self.state]:
            raise ValueError(f"job {self.id} is {self.state.value}, and cannot become {state.value}")
        self.state = state

    @property
    def wait_seconds(self) -> float:
        """How long it waited until a worker got it last."""
        return self.taken_seconds - self.put_seconds

    def answer_to(self, report: Report, now: float) -> Answer:
        outcome = outcome_of(report)
        worker = self.worker
        exit_code, error = 0, ""
        if outcome is not Outcome.SUCCESS:
            exit_code, error = report.exit_code or 1, report.error or _error(outcome, report)
        return Answer(
            outcome,
            exit_code,
            error,
            report.timeout_seconds,
            now - self.taken_seconds if report.run_seconds is None else report.run_seconds,
            self.wait_seconds,
            report.pod or (worker.pod if worker else ""),
            report.node or (worker.node if worker else ""),
            report.device or (worker.device if worker else ""),
        )

    def answer_without_report(self, outcome: Outcome, error: str, now: float) -> Answer:
        """The answer for a request that ends without a report, waiting or running."""
        worker = self.worker
        if worker is None:
            return Answer(outcome, error=error, wait_seconds=now - self.put_seconds)
        return Answer(
            outcome,
            error=error,
            timeout_seconds=self.limit_seconds if outcome is Outcome.TIMEOUT else 0.0,
            run_seconds=now - self.taken_seconds,
            wait_seconds=self.wait_seconds,
            pod=worker.pod,
            node=worker.node,
            device=worker.device,
        )


def _error(outcome: Outcome, report: Report) -> str:
    if outcome is Outcome.TIMEOUT:
        return f"the time limit of {report.timeout_seconds:g} s is over"
    return f"exit code {report.exit_code}"
