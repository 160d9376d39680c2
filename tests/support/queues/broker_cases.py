"""For tests of the work queue: clients and workers that record their notifications, and a short broker."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

import pytest

from fakedev.base.errors import Refused
from fakedev.queues.broker import Broker
from fakedev.queues.job import Answer, Job, Report
from fakedev.queues.log import Replayed, replay
from fakedev.queues.settings import BrokerSpec, QueueSpec

DONE = Report(0)


def replay_bytes(log: bytes) -> Replayed:
    """The content of the log of a durable queue."""
    return replay(BytesIO(log))


class SomeClient:
    """A client.

    :ivar answers: by job id; a job that is answered twice raises.
    """

    def __init__(self) -> None:
        self.answers: dict[int, Answer] = {}

    def answered(self, job: Job, answer: Answer) -> None:
        """Write the answer down."""
        if job.id in self.answers:
            raise AssertionError(f"job {job.id} is answered twice")
        self.answers[job.id] = answer

    @property
    def outcomes(self) -> dict[int, str]:
        """The outcome of each job that was answered."""
        return {job_id: answer.outcome.value for job_id, answer in self.answers.items()}


class SomeWorker:
    """A worker.

    :ivar offers: ids of the jobs that it was offered, with its tickets.
    :ivar nothings: tickets of waits that were over.
    :ivar withdrawals: ids of jobs, with the reasons.
    """

    def __init__(self, pod: str = "", node: str = "", device: str = "") -> None:
        self.pod = pod
        self.node = node
        self.device = device
        self.offers: list[tuple[int, object]] = []
        self.nothings: list[object] = []
        self.withdrawals: list[tuple[int, str]] = []

    def offered(self, job: Job, ticket: object) -> None:
        """Write the offer down."""
        self.offers.append((job.id, ticket))

    def wait_expired(self, queue: str, ticket: object) -> None:
        """Write down that a wait is over."""
        self.nothings.append(ticket)

    def withdrawn(self, job: Job, reason: str) -> None:
        """Write the withdrawal down."""
        self.withdrawals.append((job.id, reason))


class OneQueue:
    """A broker with the queue ``sleep`` and the queue ``other``; its calls have defaults for most arguments.

    :ivar now: the time, moved by hand.
    """

    def __init__(self, max_bytes: int = 2**28, **queue: Any) -> None:
        spec = BrokerSpec((QueueSpec("sleep", **queue), QueueSpec("other")), max_bytes=max_bytes)
        self.now = 100.0
        self.broker = Broker(spec, self.now)

    def put(self, client: SomeClient | None = None, argument: str = "", **more: Any) -> int:
        """Put a request in; its id."""
        fields = {"limit_seconds": 0.0, "size_bytes": 0, "now": self.now, **more}
        return self.broker.put(client, "sleep", (argument,) if argument else (), **fields).id

    def take(self, worker: SomeWorker, **more: Any) -> int | None:
        """Take a job; its id."""
        job = self.broker.take(worker, "sleep", self.now, **more)
        return None if job is None else job.id

    def wait(self, worker: SomeWorker, ticket: object = None, seconds: float | None = None, **more: Any) -> None:
        """Wait for a job."""
        self.broker.wait(worker, "sleep", ticket, None if seconds is None else self.now + seconds, **more)

    def finish(self, worker: SomeWorker, job_id: int, report: Report = DONE) -> Answer:
        """A run is over."""
        return self.broker.finish(worker, job_id, report, self.now)

    def pass_time(self, seconds: float) -> None:
        """Time goes on; what is due happens when it is due."""
        until = self.now + seconds
        while (deadline := self.broker.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.broker.expire(self.now)
        self.now = until

    def state(self) -> tuple[int, int, int]:
        """How many jobs wait, run and are buried."""
        snapshot = self.broker.snapshot("sleep", self.now)
        return snapshot.waiting, snapshot.running, snapshot.buried

    def counted(self) -> dict[str, int]:
        """The outcomes that were counted."""
        counts = self.broker.statistics("sleep").outcomes
        return {outcome.value: count for outcome, count in counts.items() if count}


class BrokerCase:
    """With a client and two workers."""

    def setup_method(self) -> None:
        """One queue, without limits."""
        self.client = SomeClient()
        self.worker = SomeWorker("pod-1", "node-1", "card0")
        self.other = SomeWorker("pod-2", "node-2")
        self.queue = OneQueue()
        self.broker = self.queue.broker

    def refused(self, code: str, text: str, call: Callable[..., object], *arguments: Any, **more: Any) -> None:
        """The call is refused with this code, and a text that begins so."""
        with pytest.raises(Refused) as refusal:
            call(*arguments, **more)
        assert (refusal.value.code, refusal.value.text[: len(text)]) == (code, text)


def left_behind(broker: Broker) -> list[str]:
    """What a broker still knows of jobs, waits and parties; empty when it is over with all of them."""
    ledger = broker._ledger
    left = {
        "clients": len(ledger.requests), "workers": len(ledger.held), "workers that wait": len(ledger.waits),
        "deadlines": len(ledger.deadlines), "open": ledger.open, "bytes": ledger.bytes,
    }  # fmt: skip
    for name, queue in broker._queues.items():
        left[f"{name} running"] = len(queue.running)
        left[f"{name} waiting"] = queue.waiting.count + queue.waiting.bytes + len(list(queue.waiting))
        left[f"{name} waits"] = queue.waits.count + len(queue.waits.all())
    return [f"{what}: {count}" for what, count in left.items() if count]
