"""Whole queues are held, closed to requests, opened again, and ended with the program."""

from __future__ import annotations

from functools import partial

from fakedev.workqueue.admission import Admission
from fakedev.workqueue.ends import Fates
from fakedev.workqueue.errors import Refused
from fakedev.workqueue.ledger import Ledger
from fakedev.workqueue.queue import Queue
from fakedev.workqueue.slices import Slices, for_each


class QueueControl:
    """Pauses, drains and ends queues; a name that is None means all of them."""

    def __init__(self, ledger: Ledger, admission: Admission, fates: Fates, slices: Slices) -> None:
        self._ledger = ledger
        self._admission = admission
        self._fates = fates
        self._slices = slices

    def pause(self, queue: str, until_seconds: float | None) -> None:
        """Hand nothing out, until then or until resume().

        :raises Refused: ``unknown-name``.
        """
        found = self._admission.queue(queue)
        found.is_paused = True
        self._ledger.deadlines.clear(found)
        if until_seconds is not None:
            self._ledger.deadlines.set(found, until_seconds)

    def drain(self, queue: str | None) -> None:
        """Take no requests in.

        :raises Refused: ``unknown-name``.
        """
        for found in self._admission.some(queue):
            found.is_draining = True

    def resume(self, queue: str | None, now: float) -> None:
        """End pause and drain.

        :raises Refused: ``unknown-name``; ``busy``, after close().
        """
        some = self._admission.some(queue)
        if self._admission.closed is not None:
            raise Refused("busy", self._admission.closed)
        for found in some:
            found.is_draining = False
            self._ledger.deadlines.clear(found)
            self.end_pause(found, now)

    def end_pause(self, queue: Queue, now: float) -> None:
        """Hand jobs out again, those first that wait."""
        queue.is_paused = False
        self._slices.begin(partial(self._ledger.dispatch, queue), now)

    def close(self, reason: str, now: float) -> None:
        """Take no requests in for good, hand nothing out, and end those that wait."""
        self._admission.closed = reason
        for queue in self._admission.some(None):
            queue.is_paused = True
            self._ledger.deadlines.clear(queue)
            self._slices.begin(partial(self._fates.end_first, queue, reason), now)

    def abandon(self, reason: str, now: float) -> None:
        """End what waits and what runs; nothing is taken in any more."""
        self.close(reason, now)
        for queue in self._admission.some(None):
            self._slices.begin(for_each(list(queue.running.values()), partial(self._fates.cut_short, reason)), now)
