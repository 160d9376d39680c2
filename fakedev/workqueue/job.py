"""A job: an accepted request, its states, and its two owners, the client and the worker."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from fakedev.workqueue.outcome import Answer, Outcome, Report, outcome_of


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


class Client(Protocol):
    """Sends requests.

    The broker calls clients and workers after each complete change. They may call the broker back at once, and must not
    raise.
    """

    def answered(self, job: Job, answer: Answer) -> None:
        """A request of this client has ended; called once for each."""


class Worker(Protocol):
    """Takes jobs, and runs them.

    :ivar pod, node, device: where it runs, for the answers to its jobs; empty if not known.
    """

    pod: str
    node: str
    device: str

    def offered(self, job: Job, ticket: object) -> None:
        """This worker now holds the job that it waited for.

        :param ticket: the one from :meth:`Broker.wait`.
        """

    def wait_expired(self, queue: str, ticket: object) -> None:
        """The time of a wait is over, without a job."""

    def withdrawn(self, job: Job, reason: str) -> None:
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
    client: Client | None
    ticket: object
    put_seconds: float
    state: JobState = JobState.WAITING
    worker: Worker | None = None
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
        """The answer for a run that its worker reported."""
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
