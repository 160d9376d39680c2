"""Who may what: which queues there are, whether they take a request in, and a worker another job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fakedev.workqueue.job import Client, Worker
from fakedev.workqueue.ledger import Ledger
from fakedev.workqueue.queue import Queue
from fakedev.workqueue.spec import Refused

#: What a job takes beside its arguments, and each of these beside its text.
JOB_BYTES: Final = 512
ARGUMENT_BYTES: Final = 64
#: Requests that one client may have open, and jobs that one worker may hold: what is done at once when it leaves.
MAX_PER_OWNER: Final = 4096


class Admission:
    """Says no, in words.

    :ivar max_bytes: of requests that wait or run, in all queues together.
    :ivar closed: why no request is taken in any more; None while some are.
    """

    def __init__(self, max_bytes: int, queues: Mapping[str, Queue], ledger: Ledger) -> None:
        self.max_bytes = max_bytes
        self._queues = queues
        self._ledger = ledger
        self.closed: str | None = None

    def queue(self, name: str) -> Queue:
        """The queue of this name.

        :raises Refused: ``unknown-name``.
        """
        found = self._queues.get(name)
        if found is None:
            raise Refused("unknown-name", f"Unknown '{name}' queue")
        return found

    def some(self, name: str | None) -> Iterable[Queue]:
        """The queue of this name, or all.

        :raises Refused: ``unknown-name``.
        """
        return list(self._queues.values()) if name is None else [self.queue(name)]

    def check_open(self, queue: Queue) -> None:
        """Whether requests are taken in, were there room for them.

        :raises Refused: ``busy``.
        """
        if self.closed is not None:
            raise Refused("busy", self.closed)
        if queue.is_draining:
            raise Refused("busy", f"Queue '{queue.spec.name}' is draining")

    def check_room(self, queue: Queue, client: Client | None, size_bytes: int) -> None:
        """Whether one more request of this size is taken in.

        :param client: None for nobody, who may have any number.
        :raises Refused: ``busy`` or ``full``.
        """
        self.check_open(queue)
        if queue.is_full:
            raise Refused("full", f"Queue '{queue.spec.name}' is full: {queue.waiting.count} requests wait")
        if self._ledger.bytes + size_bytes > self.max_bytes:
            raise Refused("full", f"The memory for requests is full: {self.max_bytes} bytes")
        if client is not None and self._ledger.requests.count(client) >= MAX_PER_OWNER:
            raise Refused("full", f"{MAX_PER_OWNER} requests of this connection are open")

    def check_hands(self, worker: Worker) -> None:
        """Whether a worker may have another job.

        :raises Refused: ``full``.
        """
        if self._ledger.held.count(worker) + self._ledger.waits.count(worker) >= MAX_PER_OWNER:
            raise Refused("full", f"This connection holds {MAX_PER_OWNER} jobs")


def no_job(job_id: int) -> Refused:
    """What somebody is answered who speaks of a job that is not, or not any more, its own."""
    return Refused("unknown-name", f"No job {job_id} of this connection")
