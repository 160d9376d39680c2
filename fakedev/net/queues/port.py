"""What both ports of the work queue have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from twisted.logger import Logger

from fakedev.net.lines.line_factory import LinePeerFactory
from fakedev.net.lines.server import LinePeer
from fakedev.net.queues.hub import QueueHub
from fakedev.net.queues.queue_descriptions import describe_job, describe_queue, in_words, job_in_words
from fakedev.spec.units import LONGEST_SECONDS, parse_duration
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Way
from fakedev.wire.grammar import Grammar, Request
from fakedev.wire.replies import Reply, printable
from fakedev.workqueue.errors import Refused

#: Jobs that one answer tells or gives.
MOST_JOBS = 1000


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
        self.factory.turns.afterwards(self.factory.hub)
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
        described = [describe_job(job, now) for job in broker.jobs(str(queue), MOST_JOBS)]
        if self.way is not Way.WORDS:
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
