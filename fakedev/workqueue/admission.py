"""Which requests are accepted, and which workers may get another job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fakedev.spec.errors import Refused
from fakedev.workqueue.job import Client, Worker
from fakedev.workqueue.ledger import Ledger
from fakedev.workqueue.queue import Queue

#: Bytes that a job counts for in addition to its arguments, and each argument in addition to its text.
JOB_BYTES: Final = 512
ARGUMENT_BYTES: Final = 64
#: Maximum open requests of a client, and jobs of a worker: all of them end when it disconnects.
MAX_PER_OWNER: Final = 4096


class Admission:
    """Checks the limits of requests, clients and workers.

    :ivar max_bytes: of requests that wait or run, in all queues together.
    :ivar closed: why no request is accepted any more; None while requests are accepted.
    """

    def __init__(self, max_bytes: int, queues: Mapping[str, Queue], ledger: Ledger) -> None:
        self.max_bytes = max_bytes
        self._queues = queues
        self._ledger = ledger
        self.closed: str | None = None

    def queue(self, name: str) -> Queue:
        """The queue with this name.

        :raises Refused: ``unknown-name``.
        """
        found = self._queues.get(name)
        if found is None:
            raise Refused("unknown-name", f"Unknown '{name}' queue")
        return found

    def queues_named(self, name: str | None) -> Iterable[Queue]:
        """The queue with this name, or all queues for None.

        :raises Refused: ``unknown-name``.
        """
        return list(self._queues.values()) if name is None else [self.queue(name)]

    def check_open(self, queue: Queue) -> None:
        """Check that a queue accepts requests, apart from their number and size.

        :raises Refused: ``busy``; ``full``, if its log cannot be written.
        """
        if self.closed is not None:
            raise Refused("busy", self.closed)
        if queue.is_draining:
            raise Refused("busy", f"Queue '{queue.spec.name}' is draining")
        if queue.log is not None:
            self.check_log(queue)

    def check_log(self, queue: Queue) -> None:
        """Check that the log of a queue can be written, if it has one.

        :raises Refused: ``full``.
        """
        if problem := queue.problem:
            raise Refused("full", problem)

    def check_room(self, queue: Queue, client: Client | None, size_bytes: int) -> None:
        """Check that a queue accepts one more request of this size.

        :param client: None for no client, which has no limit of requests.
        :raises Refused: ``busy`` or ``full``.
        """
        self.check_open(queue)
        if 0 < queue.spec.max_waiting <= queue.waiting.count:
            raise Refused("full", f"Queue '{queue.spec.name}' is full: {queue.waiting.count} requests wait")
        if self._ledger.bytes + size_bytes > self.max_bytes:
            raise Refused("full", f"The memory for requests is full: {self.max_bytes} bytes")
        if client is not None and self._ledger.requests.count(client) >= MAX_PER_OWNER:
            raise Refused("full", f"{MAX_PER_OWNER} requests of this connection are open")

    def room_of(self, worker: Worker) -> int:
        """How many more jobs a worker may get, at least one.

        :raises Refused: ``full``.
        """
        room = MAX_PER_OWNER - self._ledger.held.count(worker) - self._ledger.waits.count(worker)
        if room <= 0:
            raise Refused("full", f"This connection holds {MAX_PER_OWNER} jobs")
        return room


def no_job(job_id: int) -> Refused:
    """The error for a job that does not belong, or not any more, to the connection."""
    return Refused("unknown-name", f"No job {job_id} of this connection")
