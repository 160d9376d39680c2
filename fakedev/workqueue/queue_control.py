"""Pausing, draining, resuming and closing whole queues."""

from __future__ import annotations

from functools import partial

from fakedev.spec.errors import Refused
from fakedev.workqueue.admission import Admission
from fakedev.workqueue.job_ends import JobEnds
from fakedev.workqueue.ledger import Ledger
from fakedev.workqueue.queue import Queue
from fakedev.workqueue.slices import Slices, for_each


class QueueControl:
    """Pauses, drains, resumes and closes queues. A name of None means all queues."""

    def __init__(self, ledger: Ledger, admission: Admission, job_ends: JobEnds, slices: Slices) -> None:
        self._ledger = ledger
        self._admission = admission
        self._job_ends = job_ends
        self._slices = slices

    def pause(self, queue: str, until_seconds: float | None) -> None:
        """Hand out no jobs until this time, or until resume().

        :raises Refused: ``unknown-name``.
        """
        found = self._admission.queue(queue)
        found.is_paused = True
        self._ledger.deadlines.clear(found)
        if until_seconds is not None:
            self._ledger.deadlines.set(found, until_seconds)

    def drain(self, queue: str | None) -> None:
        """Accept no requests.

        :raises Refused: ``unknown-name``.
        """
        for found in self._admission.queues_named(queue):
            found.is_draining = True

    def resume(self, queue: str | None, now: float) -> None:
        """End pause and drain.

        :raises Refused: ``unknown-name``; ``busy``, after close().
        """
        found = self._admission.queues_named(queue)
        if self._admission.closed is not None:
            raise Refused("busy", self._admission.closed)
        for each in found:
            each.is_draining = False
            self._ledger.deadlines.clear(each)
            self.end_pause(each, now)

    def end_pause(self, queue: Queue, now: float) -> None:
        """Hand out jobs again, first to waiting workers."""
        queue.is_paused = False
        self._slices.begin(partial(self._ledger.dispatch, queue), now)

    def close(self, reason: str, now: float) -> None:
        """Accept no requests any more, hand out no jobs, and end the waiting ones."""
        self._admission.closed = reason
        for queue in self._admission.queues_named(None):
            queue.is_paused = True
            self._ledger.deadlines.clear(queue)
            self._slices.begin(partial(self._job_ends.cancel_first_waiting, queue, reason), now)

    def abandon(self, reason: str, now: float) -> None:
        """Close the queues, and end the running jobs too."""
        self.close(reason, now)
        for queue in self._admission.queues_named(None):
            self._slices.begin(for_each(list(queue.running.values()), partial(self._job_ends.cancel, reason)), now)
