"""The jobs of a durable queue after a restart."""

from __future__ import annotations

from collections.abc import Iterable

from fakedev.workqueue.job import Job, JobState
from fakedev.workqueue.job_ends import JobEnds
from fakedev.workqueue.ledger import Ledger
from fakedev.workqueue.log_records import LoggedJob
from fakedev.workqueue.queue import Queue


class _FormerWorker:
    """Stands for the workers that held jobs when the service ended; they get no message."""

    pod = node = device = ""

    def offered(self, job: Job, ticket: object) -> None:
        """Nothing."""

    def wait_expired(self, queue: str, ticket: object) -> None:
        """Nothing."""

    def withdrawn(self, job: Job, reason: str) -> None:
        """Nothing."""


def restore_jobs(queue: Queue, ledger: Ledger, job_ends: JobEnds, jobs: Iterable[LoggedJob], now: float) -> None:
    """Put the jobs of a log in a queue, which must be empty and have a log.

    :param jobs: in the order of their ids. One that runs is lost by its worker.
    """
    log = queue.log
    assert log is not None
    worker = _FormerWorker()
    for logged in jobs:
        job = Job(
            logged.id, queue.spec.name, logged.arguments, logged.limit_seconds, logged.size_bytes, logged.is_large,
            None, None, log.put_seconds(logged, now), attempts=logged.losses, losses=logged.losses,
            reason=logged.reason, is_durable=True,
        )  # fmt: skip
        if logged.state is JobState.BURIED:
            job.state = JobState.BURIED
            log.accepted(job)
            queue.bury(job)
            continue
        ledger.accept(queue, job, now)
        if logged.state is JobState.RUNNING:
            queue.waiting.remove(job)
            ledger.hand_out(queue, job, worker, now)
            job_ends.lose_for_worker(worker, job, now)
        elif job.losses:
            log.returned(job)
