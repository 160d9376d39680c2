"""What both queue ports share: factory, protocol, arguments, jobs and queues in answers, the hub of the broker.

One hub runs the broker on the reactor's clock for all queue ports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from fakedev.base.units import LONGEST_SECONDS, parse_duration
from fakedev.lines.framing import WORDS
from fakedev.lines.grammar import ProtocolError, Request
from fakedev.lines.json_lines import Reply
from fakedev.lines.protocol import Answering, PortProtocol
from fakedev.lines.server import LineServerFactory
from fakedev.lines.tokens import TokenGate
from fakedev.lines.words import quote_word
from fakedev.queues.broker import Broker
from fakedev.queues.job import Answer, Job, JobState, Outcome
from fakedev.queues.log_file import LogWriters
from fakedev.runtime.clock import PatientCall
from fakedev.runtime.turns import FairShare, ITurnObserver, ITurnTaker

#: The error of requests that end because the program stops.
GOING_DOWN = "the frontend goes down"


@implementer(ITurnTaker, ITurnObserver)
class QueueHub:
    """Gives the broker the time, and calls it when a deadline is reached.

    After each change of the broker :meth:`turn_ended` must be called; the queue ports do so at the end of each turn.

    :param fair_share: of the queue ports: deadlines are checked after the peers that requested a turn earlier.
    :ivar logs: of the durable queues.
    :ivar is_closed: whether no further requests are accepted until the program stops.
    """

    origin = ""
    waits_for_ticks = False

    def __init__(self, broker: Broker, clock: IReactorTime, fair_share: FairShare) -> None:
        self.broker = broker
        self.logs = LogWriters()
        self._clock = clock
        self._fair_share = fair_share
        self._now = clock.seconds()
        self._expiry: PatientCall | None = None
        self._expiry_seconds = 0.0
        self._is_due = False
        self._drained: Deferred[None] | None = None
        self._give_up: PatientCall | None = None
        self.is_closed = False

    @property
    def is_draining(self) -> bool:
        """Whether running jobs are to finish before the program stops."""
        return self._drained is not None

    def now(self) -> float:
        """Seconds of the reactor's clock; they never go back, although the system's time may."""
        now = self._clock.seconds()
        if now < self._now:
            return self._now
        self._now = now
        return now

    def turn_ended(self) -> None:
        """After a change: write the logs, schedule the broker's next deadline, end the draining when no job remains."""
        if self.logs.by_queue:
            self.logs.flush()
        deadline = self.broker.next_deadline()
        # A call that comes too early does nothing and schedules the next: cheaper than moving it for each job.
        if self._expiry is not None and (deadline is None or deadline < self._expiry_seconds):
            self._expiry.cancel()
            self._expiry = None
        if self._expiry is None and deadline is not None and not self._is_due:
            # Reports that wait at the sockets are read before a deadline is checked, also after a pause of the process.
            self._expiry = PatientCall(self._clock, max(0.0, deadline - self._clock.seconds()), self._expire)
            self._expiry_seconds = deadline
        if self._drained is not None and self.broker.is_idle:
            drained, self._drained = self._drained, None
            if self._give_up is not None:
                self._give_up.cancel()
                self._give_up = None
            drained.callback(None)

    def drain(self, seconds: float) -> Deferred[None]:
        """Accept no requests, end those that wait, and let the running ones finish; called once.

        :param seconds: after which the running ones are ended too.
        :returns: fires when no job remains.
        """
        self.is_closed = True
        self._drained = drained = Deferred[None]()
        self._give_up = PatientCall(self._clock, seconds, self.give_up)
        self.broker.close(GOING_DOWN, self.now())
        self.turn_ended()
        return drained

    def give_up(self) -> None:
        """End the jobs that still run while the queues are drained."""
        if self._give_up is not None and self._give_up.active():
            self._give_up.cancel()
        self._give_up = None
        self.broker.abandon(GOING_DOWN, self.now())
        self.turn_ended()

    def take_turn(self) -> bool:
        """Let the broker handle what is due (called by the fair share)."""
        self._is_due = False
        self.broker.expire(self.now())
        self.turn_ended()
        return False

    def _expire(self) -> None:
        self._expiry = None
        self._is_due = True
        self._fair_share.request_turn(self)


#: Jobs in one answer.
MAX_JOBS: Final = 1000
MAX_ID: Final = 2**63
#: Characters of the arguments of a listed job: a list has many jobs, and each may have 64 KiB of arguments.
_SHOWN_CHARACTERS: Final = 100


class QueuePortFactory(LineServerFactory):
    """Serves one queue port.

    :param hub: where the jobs are; both ports have the same.
    """

    def __init__(self, hub: QueueHub, clock: IReactorTime, **options: Any) -> None:
        super().__init__(clock, turn_observer=hub, **options)
        self.hub = hub


class QueueProtocol(PortProtocol):
    """The base of the protocols of both ports, with the verbs that both have."""

    def __init__(self, factory: QueuePortFactory, gate: TokenGate) -> None:
        super().__init__(factory, gate)
        self._hub = factory.hub

    def request_received(self, request: Request) -> Reply | Answering | None:
        """Serve a request, and hold its answer until what it changed is on the disk."""
        reply = self._verbs[request.verb](self, request)
        if self._hub.logs.by_queue:
            self._hub.logs.hold_changed(self)
        return reply

    def do_stats(self, request: Request) -> Reply:
        broker, now = self._hub.broker, self._hub.now()
        queue = request.arguments.get("queue")
        names = broker.queue_names if queue is None else (str(queue),)
        described = [describe_queue(broker, name, now) for name in names]
        return Reply(lines=[in_words(queue) for queue in described], data={"queues": described})

    def do_list(self, request: Request) -> Reply:
        broker, now = self._hub.broker, self._hub.now()
        queue = request.arguments.get("queue")
        if queue is None:
            return Reply(lines=broker.queue_names, data={"queues": list(broker.queue_names)})
        snapshot = broker.snapshot(str(queue), now)
        total = snapshot.waiting + snapshot.running + snapshot.buried
        described = [describe_job(job, now) for job in broker.jobs(str(queue), MAX_JOBS)]
        if self.dialect is not WORDS:
            return Reply(data={"jobs": described, "total": total})
        lines = [_job_in_words(job) for job in described]
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
    return {
        "job": job.id,
        "queue": job.queue,
        "args": job.arguments,
        "limit-seconds": job.limit_seconds,
        "attempt": job.attempts,
        "wait-seconds": _to_microseconds(job.wait_seconds),
    }


def work_in_words(job: Job) -> str:
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


def _job_in_words(described: dict[str, Any]) -> str:
    arguments = described.pop("args")
    return " ".join([in_words(described), "--", *map(quote_word, arguments)])


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
    value: int | None = arguments.get(name)  # type: ignore[assignment]  # by the grammar
    if value is not None and not at_least <= value <= at_most:
        raise ProtocolError("bad-argument", f"{name}: must be {at_least} to {at_most}")
    return value


def job_id_of(request: Request) -> int:
    """The job that a request names.

    :raises ProtocolError: ``bad-argument``.
    """
    return whole_of(request.arguments, "job", 1, MAX_ID) or 0
