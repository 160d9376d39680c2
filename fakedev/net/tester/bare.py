"""Requests in bare JSON: a connection for each, as the original programs have it."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Protocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from fakedev.net.backend.sources import FrontendLost
from fakedev.net.lines.client import FrontendConnector
from fakedev.net.tester.driver import Asker, Reconnection, lost
from fakedev.tester.plan import Plan
from fakedev.wire.bare_queue import BareReader, BareRequest, BareResult, parse_bare_result
from fakedev.wire.bare_queue_encoding import encode_bare_request
from fakedev.wire.errors import ProtocolError
from fakedev.workqueue.outcome import Answer, Outcome, Report, outcome_of, refusal


class BareExchange(Protocol):
    """One connection: a request and its answer."""

    log = Logger()

    def __init__(self, verbose: bool) -> None:
        self._reader = BareReader(parse_bare_result)
        self._verbose = verbose
        self._answered: Callable[[Answer], None] | None = None
        self.is_lost = False

    def ask(self, request: bytes, answered: Callable[[Answer], None]) -> None:
        """Send the request; ``answered`` is called once."""
        self._answered = answered
        if self._verbose:
            self.log.info("sends {request!r}", request=request)
        self.transport.write(request)

    def dataReceived(self, data: bytes) -> None:
        """Take a piece of the answer."""
        if self._verbose:
            self.log.info("received {data!r}", data=data)
        try:
            result = self._reader.feed(data)
        except ProtocolError as error:
            self._end(refusal(error.text) if error.code == "busy" else lost(error.text))
            self.cut()
            return
        if result is not None:
            self._end(answer_of(result))
            self.transport.loseConnection()

    def connectionLost(self, reason: Failure) -> None:  # type: ignore[override]
        """Nothing more will be answered."""
        self.is_lost = True
        self._end(lost(f"the connection was closed: {reason.getErrorMessage()}"))

    def cut(self) -> None:
        """Close at once; nobody is told."""
        self._answered = None
        self.transport.abortConnection()

    def _end(self, answer: Answer) -> None:
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(answer)


class BareRequests:
    """See Requests.

    :param verbose: log all messages.
    """

    log = Logger()

    def __init__(
        self, plan: Plan, connector: FrontendConnector, asker: Asker, clock: IReactorTime, verbose: bool = False
    ) -> None:
        self._message = encode_bare_request(BareRequest(plan.queue, plan.arguments, plan.limit_seconds))
        self._connector = connector
        self._asker = asker
        self._verbose = verbose
        self._comeback = Reconnection(self._look, clock)
        self._looking: Deferred[None] | None = None
        self._connecting: dict[int, Deferred[None]] = {}
        self._exchanges: dict[int, BareExchange] = {}
        self._spare: BareExchange | None = None  # the connection that showed that the frontend is there
        self._is_away = True
        self._was_away = False

    @property
    def can_start(self) -> bool:
        """See Requests."""
        return not self._is_away

    def start(self) -> None:
        """See Requests."""
        self._look()

    def send(self, number: int) -> None:
        """See Requests."""
        spare, self._spare = self._spare, None
        if spare is not None and not spare.is_lost:
            self._ask(number, spare)
            return
        connecting = Deferred.fromCoroutine(self._connected(number))
        if not connecting.called:
            self._connecting[number] = connecting
        connecting.addErrback(self._report)

    def take_back(self, number: int) -> None:
        """See Requests."""
        connecting = self._connecting.pop(number, None)
        if connecting is not None:
            connecting.cancel()
        exchange = self._exchanges.pop(number, None)
        if exchange is not None:
            exchange.cut()

    def stop(self) -> None:
        """See Requests."""
        self._comeback.stop()
        if self._looking is not None:
            self._looking.cancel()
        for number in [*self._connecting, *self._exchanges]:
            self.take_back(number)
        if self._spare is not None:
            self._spare.cut()

    async def _connected(self, number: int) -> None:
        try:
            exchange = await self._connector.connect(lambda: BareExchange(self._verbose))
        except FrontendLost as reason:
            self._connecting.pop(number, None)
            # First it is known that there is no frontend: whoever hears of the end must not start the next there.
            self._away(str(reason))
            self._asker.answered(number, lost(str(reason)))
            return
        self._connecting.pop(number, None)
        self._ask(number, exchange)

    def _ask(self, number: int, exchange: BareExchange) -> None:
        self._exchanges[number] = exchange
        exchange.ask(self._message, lambda answer: self._answered(number, answer))

    def _answered(self, number: int, answer: Answer) -> None:
        del self._exchanges[number]
        self._asker.answered(number, answer)

    def _away(self, reason: str) -> None:
        if not self._is_away:
            self.log.warn("{reason}; trying again", reason=reason)
            self._is_away = self._was_away = True
            self._comeback.later()

    def _look(self) -> None:
        """See whether the frontend is there."""
        self._looking = Deferred.fromCoroutine(self._looked())
        self._looking.addErrback(self._report)

    async def _looked(self) -> None:
        try:
            self._spare = await self._connector.connect(lambda: BareExchange(self._verbose))
        except FrontendLost as reason:
            if not self._was_away:
                self.log.warn("{reason}; trying again", reason=reason)
            self._was_away = True
            self._comeback.later()
            return
        self._comeback.succeeded()
        self._is_away = False
        if self._was_away:
            self._was_away = False
            self._asker.reconnected()
        self._asker.may_start()
        if self._spare is not None:
            # A silent connection stops the original frontend.
            self._spare.cut()
            self._spare = None

    def _report(self, failure: Failure) -> None:
        if not failure.check(CancelledError, ConnectingCancelledError):
            self.log.failure("Connecting failed", failure)


def answer_of(result: BareResult) -> Answer:
    """What a frontend that speaks bare JSON says of a request.

    It names no outcome. Who answered without any backend's name refused the request, if that did not wait; else it
    waited for a backend that got lost.
    """
    report = Report(result.exit_code, result.error, result.timeout_seconds)
    outcome = outcome_of(report)
    if outcome is Outcome.FAILURE and not (result.pod or result.node or result.device or result.run_seconds):
        outcome = Outcome.LOST if result.wait_seconds else Outcome.REFUSED
    return Answer(
        outcome,
        result.exit_code,
        result.error,
        result.timeout_seconds,
        result.run_seconds,
        result.wait_seconds,
        result.pod,
        result.node,
        result.device,
    )
