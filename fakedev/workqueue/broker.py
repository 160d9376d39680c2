"""The rules of the work queue: who gets which job when, and how each request ends."""

from __future__ import annotations

from typing import NamedTuple

from fakedev.workqueue.job import Job
from fakedev.workqueue.outcome import Answer, Report
from fakedev.workqueue.parties import Client, Worker
from fakedev.workqueue.spec import BrokerSpec


class QueueSnapshot(NamedTuple):
    """How a queue is.

    :param state: ``open``, ``paused``, ``draining`` or ``paused,draining``.
    :param workers_idle: waits for work, in this queue.
    :param workers_busy: workers that hold a job of this queue.
    """

    name: str
    state: str
    waiting: int
    running: int
    buried: int
    waiting_bytes: int
    oldest_seconds: float
    workers_idle: int
    workers_busy: int


class Broker:
    """All queues, and the jobs in them.

    Each method that takes ``now``, in seconds, must be given one that never goes back. What is told to a party is
    told when the change is complete.

    :ivar queue_names: in the order of the configuration.
    """

    def __init__(self, spec: BrokerSpec) -> None:
        self.spec = spec
        self.queue_names = tuple(queue.name for queue in spec.queues)

    # Clients

    def put(
        self,
        client: Client | None,
        queue: str,
        arguments: tuple[str, ...],
        limit_seconds: float,
        size_bytes: int,
        now: float,
        is_large: bool = False,
    ) -> Job:
        """Take a request in; a worker that waits for one is offered it at once.

        :param limit_seconds: of a run; 0 or less for the queue's.
        :param size_bytes: of the request as it came.
        :param is_large: whether the original's backend could not read it, so that it is kept from those.
        :raises Refused: ``unknown-name``, ``full`` or ``busy`` (draining).
        """
        raise NotImplementedError

    def cancel(self, client: Client, job_id: int, now: float) -> None:
        """End a request of this client; it is told so first.

        :raises Refused: ``unknown-name``, when it is none of its open ones.
        """

    def client_left(self, client: Client, now: float) -> None:
        """End all requests of a client; nobody is told but the workers."""

    # Workers

    def take(self, worker: Worker, queue: str, now: float, small_only: bool = False) -> Job | None:
        """The oldest waiting job, which is the worker's now; None when none waits or the queue is paused.

        :param small_only: only one that the original's backend can read.
        :raises Refused: ``unknown-name``.
        """
        raise NotImplementedError

    def wait(
        self, worker: Worker, queue: str, ticket: object, until_seconds: float | None, now: float,
        small_only: bool = False,
    ) -> None:  # fmt: skip
        """Offer the worker the next job that take() would give, after those that wait longer. Ask take() first.

        :param ticket: given back in offered() or nothing(); one for each wait of a worker that is open.
        :param until_seconds: then it is told nothing(); None for never.
        :raises Refused: ``unknown-name``.
        """

    def finish(self, worker: Worker, job_id: int, report: Report, now: float) -> Answer:
        """A run is over; the client is told.

        :raises Refused: ``unknown-name``, when the job is not this worker's, or not any more.
        """
        raise NotImplementedError

    def touch(self, worker: Worker, job_id: int, now: float) -> None:
        """The limit of the job counts from now.

        :raises Refused: as for finish().
        """

    def release(self, worker: Worker, job_id: int, now: float) -> None:
        """The job waits again, at its old place.

        :raises Refused: as for finish().
        """

    def bury(self, worker: Worker, job_id: int, reason: str, now: float) -> None:
        """The request is lost; the job is kept for kick().

        :raises Refused: as for finish().
        """

    def worker_left(self, worker: Worker, now: float) -> None:
        """A worker is gone: its jobs wait again where a retry is left, and are lost else."""

    # Whole queues; ``None`` means all of them

    def kick(self, queue: str, count: int | None, now: float) -> list[Job]:
        """Put buried jobs in again, those first that were buried first, as new requests of nobody.

        :raises Refused: ``unknown-name`` or ``busy`` (draining).
        """
        raise NotImplementedError

    def pause(self, queue: str, until_seconds: float | None, now: float) -> None:
        """Hand nothing out, until then or until resume().

        :raises Refused: ``unknown-name``.
        """

    def drain(self, queue: str | None) -> None:
        """Take no requests in.

        :raises Refused: ``unknown-name``.
        """

    def resume(self, queue: str | None, now: float) -> None:
        """End pause and drain.

        :raises Refused: ``unknown-name``.
        """

    # The end of the program

    def close(self, reason: str, now: float) -> None:
        """Take no requests in for good, and end those that wait."""

    def abandon(self, reason: str, now: float) -> None:
        """End what waits and what runs."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing runs."""
        raise NotImplementedError

    # Time

    def next_deadline(self) -> float | None:
        """When expire() has something to do next; None for never."""
        raise NotImplementedError

    def expire(self, now: float) -> None:
        """Do what is due: jobs over their limit and grace, waits and pauses that are over."""

    # What can be seen

    def snapshot(self, queue: str, now: float) -> QueueSnapshot:
        """How a queue is.

        :raises Refused: ``unknown-name``.
        """
        raise NotImplementedError

    def jobs(self, queue: str, most: int) -> list[Job]:
        """Jobs of a queue: running, then waiting in their order, then buried.

        :raises Refused: ``unknown-name``.
        """
        raise NotImplementedError
