"""What both ports of the work queue share: factory, session, arguments, and how jobs and queues are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, cast

from twisted.internet.interfaces import IReactorTime

from fakedev.net.lines.peer import Peer
from fakedev.net.lines.server import LineServerFactory
from fakedev.net.queues.hub import QueueHub
from fakedev.spec.units import LONGEST_SECONDS, parse_duration
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Dialect
from fakedev.wire.grammar import Grammar, Request
from fakedev.wire.replies import Reply
from fakedev.wire.words import quote_word
from fakedev.workqueue.broker import Broker
from fakedev.workqueue.job import Job, JobState
from fakedev.workqueue.outcome import Answer, Outcome

#: Jobs in one answer.
MAX_JOBS: Final = 1000
MAX_ID: Final = 2**63
#: Characters of the arguments of a listed job: a list has many jobs, and each may have 64 KiB of arguments.
_SHOWN_CHARACTERS: Final = 100


class QueuePortFactory(LineServerFactory):
    """Serves one queue port.

    :param hub: where the jobs are; both ports have the same.
    :cvar verbs: the verbs of the port.
    :cvar session: the class of its sessions.
    """

    verbs: Grammar
    session: type[Any]

    def __init__(self, hub: QueueHub, clock: IReactorTime, **options: Any) -> None:
        super().__init__(self.verbs, lambda peer: self.session(self, peer), clock, turn_observer=hub, **options)
        self.hub = hub


class QueueSession:
    """The base of the sessions: serves the verbs that both ports have."""

    __slots__ = ("_hub", "_peer")
    _serving: ClassVar[dict[str, Callable[[Any, Request], Reply | None]]]  # the methods do_VERB by verb

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        names = [name for name in dir(cls) if name.startswith("do_")]
        cls._serving = {name.removeprefix("do_"): getattr(cls, name) for name in names}

    def __init__(self, factory: QueuePortFactory, peer: Peer) -> None:
        self._hub = factory.hub
        self._peer = peer

    def request_received(self, request: Request) -> Reply | None:
        """Serve a verb by the method ``do_VERB``."""
        reply = self._serving[request.verb](self, request)
        if self._hub.logs.by_queue:
            self._hub.logs.hold_changed(self._peer)
        return reply

    def do_stats(self, request: Request) -> Reply:
        """A line for each queue, or for one."""
        broker, now = self._hub.broker, self._hub.now()
        queue = request.arguments.get("queue")
        names = broker.queue_names if queue is None else (str(queue),)
        described = [describe_queue(broker, name, now) for name in names]
        return Reply(lines=[in_words(each) for each in described], data={"queues": described})

    def do_list(self, request: Request) -> Reply:
        """The names of the queues, or a line for each job of one."""
        broker, now = self._hub.broker, self._hub.now()
        queue = request.arguments.get("queue")
        if queue is None:
            return Reply(lines=broker.queue_names, data={"queues": list(broker.queue_names)})
        snapshot = broker.snapshot(str(queue), now)
        total = snapshot.waiting + snapshot.running + snapshot.buried
        described = [describe_job(job, now) for job in broker.jobs(str(queue), MAX_JOBS)]
        if self._peer.dialect is not Dialect.WORDS:
            return Reply(data={"jobs": described, "total": total})
        lines = [job_in_words(each) for each in described]
        if total > len(lines):
            lines.append(f"... and {total - len(lines)} more")
        return Reply(lines=lines)


def describe_queue(broker: Broker, queue: str, now: float) -> dict[str, Any]:
    """State and counters of a queue, by the names of the protocol.

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
    """A job for a backend that uses JSON lines."""
    return {
        "job": job.id,
        "queue": job.queue,
        "args": job.arguments,
        "limit-seconds": job.limit_seconds,
        "attempt": job.attempts,
        "wait-seconds": _to_microseconds(job.wait_seconds),
    }


def work_in_words(job: Job) -> str:
    """A job for a backend that uses words."""
    words = [str(job.id), f"limit-seconds={job.limit_seconds:g}", f"attempt={job.attempts}"]
    return " ".join([*words, *map(quote_word, job.arguments)])


def describe_result(job_id: int, answer: Answer) -> dict[str, Any]:
    """The result of a request, for its client."""
    return {
        "job": job_id,
        "outcome": answer.outcome.text,
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
    """The first value, which is a name, then the others as key=value, without empty texts."""
    (_, name), *others = described.items()
    return " ".join([str(name), *(f"{key}={_shown(value)}" for key, value in others if value != "")])


def job_in_words(described: Mapping[str, Any]) -> str:
    """A job as describe_job() gives it, in words."""
    known = {key: value for key, value in described.items() if key != "args"}
    return " ".join([in_words(known), "--", *map(quote_word, described["args"])])


def _beginning(arguments: Sequence[str]) -> list[str]:
    """The arguments up to the last character that is shown, and dots when there are more."""
    room = _SHOWN_CHARACTERS
    for position, argument in enumerate(arguments):
        if len(argument) > room:
            return [*arguments[:position], argument[:room] + "..."]
        room = max(0, room - len(argument))
    return list(arguments)


def _to_microseconds(seconds: float) -> float:
    """Seconds rounded to microseconds; round() takes three times as long."""
    return int(seconds * 1e6 + 0.5) / 1e6


def _shown(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else quote_word(str(value))


def seconds_of(arguments: Mapping[str, object], name: str) -> float:
    """An argument that is a duration; 0 when it is not given.

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


def whole_of(arguments: Mapping[str, object], name: str, at_least: int, at_most: int) -> int | None:
    """An argument that is a whole number; None when it is not given.

    :raises ProtocolError: ``bad-argument``, naming it.
    """
    value = cast("int | None", arguments.get(name))
    if value is not None and not at_least <= value <= at_most:
        raise ProtocolError("bad-argument", f"{name}: must be {at_least} to {at_most}")
    return value


def job_id_of(request: Request) -> int:
    """The job that a request names.

    :raises ProtocolError: ``bad-argument``.
    """
    return whole_of(request.arguments, "job", 1, MAX_ID) or 0
