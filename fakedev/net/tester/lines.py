"""Requests as JSON lines: all of a plan on one connection."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IPushProducer, IReactorTime
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure
from zope.interface import implementer

from fakedev.net.backend.sources import FrontendLost
from fakedev.net.lines.client import FrontendConnector
from fakedev.net.tester.driver import Asker, Reconnection, lost
from fakedev.tester.plan import Plan
from fakedev.wire.errors import ProtocolError
from fakedev.wire.queue_messages import (
    MAX_LINE_BYTES,
    Accepted,
    ClientMessage,
    Ended,
    PutForm,
    Refusal,
    encode_cancel,
    parse_client_message,
)
from fakedev.workqueue.outcome import Answer, Outcome, refusal


@implementer(IPushProducer)
class ClientTalk(LineOnlyReceiver):
    """One connection to the client port.

    :ivar is_full: the frontend does not read what was sent: nothing more is to be sent now.
    """

    log = Logger()
    delimiter = b"\n"
    MAX_LENGTH = MAX_LINE_BYTES

    def __init__(self, requests: LineRequests, verbose: bool) -> None:
        self._requests = requests
        self._verbose = verbose
        self._fault = ""
        self.is_full = False

    def connectionMade(self) -> None:
        """Be told when the frontend does not keep up."""
        self.transport.registerProducer(self, True)

    def say(self, line: bytes) -> None:
        """Send a line."""
        if self._verbose:
            self.log.info("sends {line!r}", line=line)
        self.transport.write(line)

    def lineReceived(self, line: bytes) -> None:
        """Take an answer, or news."""
        if self._verbose:
            self.log.info("received {line!r}", line=line)
        try:
            heard = parse_client_message(line)
        except ProtocolError as error:
            self._fail(f"the frontend does not speak JSON lines: {error.text}")
            return
        if isinstance(heard, Refusal) and heard.request is None:
            self._fail(f"the frontend refuses the connection: {heard.code}: {heard.text}")
        elif heard is not None:
            self._requests.heard(heard)

    def lineLengthExceeded(self, line: bytes) -> None:
        """No answer is that long."""
        self._fail(f"an answer of the frontend is longer than {self.MAX_LENGTH} bytes")

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Nothing more will be answered."""
        self._requests.connection_lost(self, self._fault or f"the connection was closed: {reason.getErrorMessage()}")

    def pauseProducing(self) -> None:
        """The frontend does not keep up."""
        self.is_full = True

    def resumeProducing(self) -> None:
        """It does again."""
        self.is_full = False
        self._requests.has_room()

    def stopProducing(self) -> None:
        """The connection is lost: connectionLost says so."""

    def cut(self) -> None:
        """Close at once."""
        self.transport.abortConnection()

    def _fail(self, fault: str) -> None:
        self._fault = fault
        self.cut()


class LineRequests:
    """See Requests.

    :param verbose: log all messages.
    """

    log = Logger()

    def __init__(
        self, plan: Plan, connector: FrontendConnector, asker: Asker, clock: IReactorTime, verbose: bool = False
    ) -> None:
        self._form = PutForm(plan.queue, plan.arguments, plan.limit_seconds)
        self._connector = connector
        self._asker = asker
        self._verbose = verbose
        self._comeback = Reconnection(self._connect, clock)
        self._connecting: Deferred[None] | None = None
        self._talk: ClientTalk | None = None
        self._was_away = False
        self._stopped = False
        self._jobs: dict[int, int | None] = {}  # request to job; None until the frontend has told its number
        self._requests: dict[int, int] = {}  # job to request
        self._taken_back: set[int] = set()  # requests whose job is cancelled as soon as its number is known

    @property
    def can_start(self) -> bool:
        """See Requests."""
        return self._talk is not None and not self._talk.is_full

    def start(self) -> None:
        """See Requests."""
        self._connect()

    def send(self, number: int) -> None:
        """See Requests."""
        self._jobs[number] = None
        cast(ClientTalk, self._talk).say(self._form.encode(number))

    def take_back(self, number: int) -> None:
        """See Requests."""
        job = self._jobs.pop(number)
        if job is None:
            self._taken_back.add(number)
        else:
            self._cancel(job)

    def stop(self) -> None:
        """See Requests."""
        self._stopped = True
        self._comeback.stop()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._talk is not None:
            self._talk.cut()

    def heard(self, heard: ClientMessage) -> None:
        """The frontend has said something about a request."""
        self._comeback.succeeded()
        match heard:
            case Accepted(number, job) if number in self._taken_back:
                self._taken_back.discard(number)
                self._cancel(job)
            case Accepted(number, job) if number in self._jobs:
                self._jobs[number] = job
                self._requests[job] = number
            case Refusal(number, code, text) if number in self._jobs:
                del self._jobs[number]
                self._asker.answered(number, refusal(f"{code}: {text}"))
            case Refusal(number):
                self._taken_back.discard(number)
            case Ended(job) if job in self._requests:
                number = self._requests.pop(job)
                if self._jobs.pop(number, None) is not None:
                    self._asker.answered(number, _answer(heard))

    def has_room(self) -> None:
        """The frontend reads again."""
        if self.can_start:
            self._asker.may_start()

    def connection_lost(self, talk: ClientTalk, reason: str) -> None:
        """The connection is gone, and all its requests with it."""
        if talk is not self._talk or self._stopped:
            return
        self._talk = None
        self.log.warn("{frontend}: {reason}", frontend=self._connector.shown, reason=reason)
        under_way, self._jobs, self._requests, self._taken_back = self._jobs, {}, {}, set()
        for number in under_way:
            self._asker.answered(number, lost(reason))
        self._away()

    def _cancel(self, job: int) -> None:
        self._requests.pop(job, None)
        cast(ClientTalk, self._talk).say(encode_cancel(job))

    def _away(self) -> None:
        self._was_away = True
        self._comeback.later()

    def _connect(self) -> None:
        self._connecting = Deferred.fromCoroutine(self._connected())
        self._connecting.addErrback(self._report)

    async def _connected(self) -> None:
        try:
            talk = await self._connector.connect(lambda: ClientTalk(self, self._verbose))
        except FrontendLost as reason:
            if not self._was_away:
                self.log.warn("{reason}; trying again", reason=reason)
            self._away()
            return
        self._talk = talk
        if self._was_away:
            self._was_away = False
            self._asker.reconnected()
        self._asker.may_start()

    def _report(self, failure: Failure) -> None:
        if not failure.check(CancelledError, ConnectingCancelledError):
            self.log.failure("Connecting failed", failure)


def _answer(ended: Ended) -> Answer:
    try:
        outcome = Outcome(ended.outcome)
    except ValueError:
        return lost(f"the frontend tells an unknown outcome: {ended.outcome}")
    values: Any = ended._asdict()
    del values["job"]
    return Answer(**{**values, "outcome": outcome})
