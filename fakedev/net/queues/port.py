"""What both ports of the work queue have in common.

Queues and jobs as peers and people are told of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from twisted.logger import Logger

from fakedev.net.lines.server import LinePeer, LinePeerFactory
from fakedev.net.queues.hub import QueueHub
from fakedev.spec.units import LONGEST_SECONDS, parse_duration
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Dialect
from fakedev.wire.grammar import Grammar, Request
from fakedev.wire.replies import Reply, printable
from fakedev.wire.words import quote_word
from fakedev.workqueue.broker import Broker
from fakedev.workqueue.job import Job, JobState
from fakedev.workqueue.outcome import Answer, Outcome
from fakedev.workqueue.spec import Refused

#: Of the arguments of a job that is only shown: a list tells of many jobs, and each may have 64 KiB of them.
_SHOWN_CHARACTERS: Final = 100
_DOTS: Final = "..."


def describe_queue(broker: Broker, queue: str, now: float) -> dict[str, Any]:
    """How a queue is, by the names of the protocol.

    :raises Refused: ``unknown-name``.
    """
    snapshot = broker.snapshot(queue, now)
    counted = broker.statistics(queue)
    return {
        "queue": snapshot.name,
        "state": snapshot.state,
        "waiting": snapshot.waiting,
        "running": snapshot.running,
        "buried": snapshot.buried,
        "waiting-bytes": snapshot.waiting_bytes,
        "oldest-seconds": _to_microseconds(snapshot.oldest_seconds),
        "workers-idle": snapshot.workers_idle,
        "workers-busy": snapshot.workers_busy,
        "put": counted.puts,
        **{outcome.value: counted.outcomes[outcome] for outcome in Outcome},
        "disconnect": counted.disconnects,
        "buried-total": counted.burials,
    }


def describe_job(job: Job, now: float) -> dict[str, Any]:
    """A job that is not over, by the names of the protocol."""
    described: dict[str, Any] = {
        "job": job.id,
        "state": job.state.value,
        "age-seconds": _to_microseconds(now - job.put_seconds),
        "attempt": job.attempts,
    }
    if job.worker is not None:
        described |= {"node": job.worker.node, "pod": job.worker.pod}
    if job.state is JobState.BURIED:
        (described["reason"],) = _beginning([job.reason])
    return {**described, "args": _beginning(job.arguments)}


def describe_work(job: Job) -> dict[str, Any]:
    """A job that is handed out, for a backend that speaks in JSON lines."""
    return {
        "job": job.id,
        "queue": job.queue,
        "args": job.arguments,
        "limit-seconds": job.limit_seconds,
        "attempt": job.attempts,
        "wait-seconds": _to_microseconds(job.wait_seconds),
    }


def work_in_words(job: Job) -> str:
    """A job that is handed out, for a backend that speaks in words."""
    words = [str(job.id), f"limit-seconds={job.limit_seconds:g}", f"attempt={job.attempts}"]
    return " ".join([*words, *map(quote_word, job.arguments)])


def describe_result(job_id: int, answer: Answer) -> dict[str, Any]:
    """What a client is told of a request that is over."""
    return {
        "job": job_id,
        "outcome": answer.outcome.value,
        "exit-code": answer.exit_code,
        "error": answer.error,
        "timeout-seconds": answer.timeout_seconds,
        "run-seconds": _to_microseconds(answer.run_seconds),
        "wait-seconds": _to_microseconds(answer.wait_seconds),
        "pod": answer.pod,
        "node": answer.node,
        "device": answer.device,
    }


def in_words(described: Mapping[str, Any]) -> str:
    """A name, and what is known of it as key=value, without texts that are empty."""
    (_, name), *others = described.items()
    return " ".join([str(name), *(f"{key}={_shown(value)}" for key, value in others if value != "")])


def job_in_words(described: Mapping[str, Any]) -> str:
    """What describe_job() says."""
    known = {key: value for key, value in described.items() if key != "args"}
    return " ".join([in_words(known), "--", *map(quote_word, described["args"])])


def _beginning(arguments: Sequence[str]) -> list[str]:
    """The arguments, or as many characters of them as are shown, and dots."""
    room = _SHOWN_CHARACTERS
    for place, argument in enumerate(arguments):
        if len(argument) > room:
            return [*arguments[:place], argument[:room] + _DOTS]
        room = max(0, room - len(argument))
    return list(arguments)


def _to_microseconds(seconds: float) -> float:
    """Seconds as they are told; round() takes three times as long."""
    return int(seconds * 1e6 + 0.5) / 1e6


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else quote_word(str(value))

#: Jobs that one answer tells or gives.
MAX_JOBS = 1000


class QueuePeer(LinePeer):
    """A peer of a queue port: does what a request asks by the method ``do_VERB``."""

    log = Logger()
    factory: QueuePortFactory

    def requestReceived(self, request: Request) -> Reply | None:
        """Do what a request in words or JSON lines asks."""
        act: Callable[[Request], Reply | None] = getattr(self, f"do_{request.verb}")
        try:
            return act(request)
        except Refused as refused:
            raise ProtocolError(refused.code, refused.text) from None

    def bareReceived(self, message: bytes) -> None:
        """Do what a program of the original asks."""
        try:
            self.bare_asked(message)
        except Refused as refused:
            raise ProtocolError(refused.code, refused.text) from None

    def take_turn(self) -> bool:
        """Do a slice of what has come; whether there is more to do now."""
        more = super().take_turn()
        self.factory.fair_share.afterwards(self.factory.hub)
        return more

    @abstractmethod
    def bare_asked(self, message: bytes) -> None:
        """Do what a bare object asks."""

    def note(self, notes: tuple[str, ...]) -> None:
        """Log what was ignored of a bare object."""
        for each in notes:
            self.log.info("{peer}: {note}", peer=self.describe(), note=printable(each))

    def do_stats(self, request: Request) -> Reply:
        """A line for each queue, or for one."""
        broker, now = self.factory.hub.broker, self.factory.hub.now()
        queue = request.arguments.get("queue")
        names = broker.queue_names if queue is None else (str(queue),)
        described = [describe_queue(broker, name, now) for name in names]
        return Reply(lines=[in_words(each) for each in described], data={"queues": described})

    def do_list(self, request: Request) -> Reply:
        """The names of the queues, or a line for each job of one."""
        broker, now = self.factory.hub.broker, self.factory.hub.now()
        queue = request.arguments.get("queue")
        if queue is None:
            return Reply(lines=broker.queue_names, data={"queues": list(broker.queue_names)})
        snapshot = broker.snapshot(str(queue), now)
        total = snapshot.waiting + snapshot.running + snapshot.buried
        described = [describe_job(job, now) for job in broker.jobs(str(queue), MAX_JOBS)]
        if self.way is not Dialect.WORDS:
            return Reply(data={"jobs": described, "total": total})
        lines = [job_in_words(each) for each in described]
        if total > len(lines):
            lines.append(f"... and {total - len(lines)} more")
        return Reply(lines=lines)


class QueuePortFactory(LinePeerFactory):
    """The peers of one queue port.

    :param hub: where the jobs are; both ports have the same.
    """

    def __init__(self, grammar: Grammar, hub: QueueHub, clock: Any, **options: Any) -> None:
        super().__init__(grammar, clock, **options)
        self.hub = hub


def seconds_of(arguments: Mapping[str, object], name: str) -> float:
    """A duration among the arguments of a request; 0 when it was not given.

    :raises ProtocolError: ``bad-argument``, naming it.
    """
    value: Any = arguments.get(name, 0.0)
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except ValueError as error:
            raise ProtocolError("bad-argument", f"{name}: {error}") from None
    if not 0 <= value <= LONGEST_SECONDS:
        raise ProtocolError("bad-argument", f"{name}: must be 0 to {LONGEST_SECONDS:.0f} seconds")
    return float(value)


def whole_of(arguments: Mapping[str, object], name: str, least: int, most: int) -> int | None:
    """A whole number among the arguments of a request; None when it was not given.

    :raises ProtocolError: ``bad-argument``, naming it.
    """
    value: Any = arguments.get(name)
    if value is not None and not least <= value <= most:
        raise ProtocolError("bad-argument", f"{name}: must be {least} to {most}")
    number: int | None = value
    return number
