"""Workers that wait for work, in the order in which they came."""

from __future__ import annotations

from collections import OrderedDict

from fakedev.workqueue.job import Job
from fakedev.workqueue.parties import Worker


class Wait:
    """A worker that waits for a job of a queue.

    :ivar number: growing in the order of arrival.
    :ivar ticket: what the worker knows it by.
    """

    __slots__ = ("number", "queue", "small_only", "ticket", "worker")

    def __init__(self, number: int, worker: Worker, queue: str, ticket: object, small_only: bool) -> None:
        self.number = number
        self.worker = worker
        self.queue = queue
        self.ticket = ticket
        self.small_only = small_only


class Waits:
    """Those who wait in one queue; who takes small jobs only is looked past for a large one."""

    __slots__ = ("_any", "_small")

    def __init__(self) -> None:
        self._any: OrderedDict[int, Wait] = OrderedDict()
        self._small: OrderedDict[int, Wait] = OrderedDict()

    def __len__(self) -> int:
        return len(self._any) + len(self._small)

    def all(self) -> list[Wait]:
        """All of them."""
        return [*self._any.values(), *self._small.values()]

    def add(self, wait: Wait) -> None:
        """Another one waits."""
        (self._small if wait.small_only else self._any)[wait.number] = wait

    def remove(self, wait: Wait) -> None:
        """One waits no longer."""
        del (self._small if wait.small_only else self._any)[wait.number]

    def first_for(self, job: Job) -> Wait:
        """Who has waited longest among those that may have the job; there must be one."""
        if job.is_large or not self._small:
            return next(iter(self._any.values()))
        small = next(iter(self._small.values()))
        if not self._any:
            return small
        other = next(iter(self._any.values()))
        return small if small.number < other.number else other

    def takes_any(self) -> bool:
        """Whether somebody here takes large jobs too."""
        return bool(self._any)
