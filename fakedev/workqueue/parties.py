"""Whom the broker deals with. The ports' peers are such parties; they are told things while the broker is at rest,
and may call it back at once. They must not raise."""

from __future__ import annotations

from typing import Protocol

from fakedev.workqueue.job import Job
from fakedev.workqueue.outcome import Answer


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
