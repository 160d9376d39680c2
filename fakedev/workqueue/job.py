"""A request that was accepted, and the states it goes through."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fakedev.workqueue.parties import Client, Worker


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
