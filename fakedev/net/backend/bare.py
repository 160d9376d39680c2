"""A backend's work in bare JSON: a connection for each job, as the original programs have it."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Protocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from fakedev.net.backend.sources import BackendNames, FrontendLost, FrontendRefused, Shutdown, TakenJob
from fakedev.net.lines.client import FrontendConnector
from fakedev.wire.bare_queue import BareResult, BareWork, BareWorkReader
from fakedev.wire.bare_queue_encoding import encode_bare_ask, encode_bare_result
from fakedev.wire.errors import ProtocolError
from fakedev.workqueue.backend_run import unfinished_report
from fakedev.workqueue.outcome import Report


class BareExchange(Protocol):
    """One connection: the question, its answer, and the result of the job that came with it.

    :ivar answered: fires with the answer; fails with FrontendLost or FrontendRefused.
    :ivar closed: fires when the connection is closed.
    """

    log = Logger()

    def __init__(self, question: bytes) -> None:
        self.answered: Deferred[BareWork] = Deferred()
        self.closed: Deferred[None] = Deferred()
        self.job: TakenJob | None = None
        self._question = question
        self._reader: BareWorkReader | None = BareWorkReader()

    def connectionMade(self) -> None:
        """Ask."""
        self._send(self._question)

    def dataReceived(self, data: bytes) -> None:
        """Take bytes of the answer; a frontend says nothing after it."""
        self.log.debug("received {data!r}", data=data)
        if self._reader is None:
            return
        try:
            answer = self._reader.feed(data)
        except ProtocolError as error:
            self._reader = None
            kind = FrontendLost if error.code == "busy" else FrontendRefused
            self.answered.errback(kind(error.text))
            return
        if answer is not None:
            self._reader = None
            self.answered.callback(answer)

    def connectionLost(self, reason: Failure) -> None:
        """The frontend, or we, closed the connection."""
        if self._reader is not None:
            self._reader = None
            self.answered.errback(FrontendLost(f"it closed the connection without an answer: {_words(reason)}"))
        if self.job is not None:
            self.job.withdraw(f"the frontend closed the connection: {_words(reason)}")
        self.closed.callback(None)

    def send_result(self, result: bytes) -> None:
        """Send the result, in one write, and close."""
        self.job = None
        self._send(result)
        self.transport.loseConnection()

    def close(self) -> None:
        """Close without a result."""
        self.transport.loseConnection()

    def cut(self) -> None:
        """Close now, whatever is still to be sent."""
        self.transport.abortConnection()

    def _send(self, data: bytes) -> None:
        self.log.debug("sends {data!r}", data=data)
        self.transport.write(data)


class BareSource:
    """Gets jobs in bare JSON. See JobSource."""

    waits_for_work = False
    takes_back = False

    def __init__(self, connector: FrontendConnector, queue: str, names: BackendNames, clock: IReactorTime) -> None:
        self._connector = connector
        self._question = encode_bare_ask(queue)
        self._names = names
        self._exchange: BareExchange | None = None
        self._last_words = Shutdown(clock)

    async def take(self, idle_seconds: float) -> TakenJob | None:
        """Ask once."""
        return await self._last_words.ask(self._take())

    async def finish(self, job: TakenJob, report: Report) -> None:
        """Send the result, and wait until it is on its way."""
        exchange = self._exchange
        if exchange is None or exchange.job is not job or job.withdrawn:
            raise FrontendLost(job.withdrawn)
        result = BareResult(
            **self._names.shown(),
            error=report.error,
            timeout_seconds=report.timeout_seconds,
            run_seconds=report.run_seconds or 0.0,
            exit_code=report.exit_code,
        )
        exchange.send_result(encode_bare_result(result))
        await exchange.closed

    async def give_back(self, job: TakenJob, reason: str, run_seconds: float = 0.0) -> None:
        """The original's protocol knows no way back: the client is told why there is no result."""
        await self.finish(job, unfinished_report(reason, run_seconds))

    def leave(self) -> None:
        """Wait a moment for an answer that is on its way, and for no other."""
        self._last_words.leave()

    def cut(self) -> None:
        """Drop the connection."""
        self._last_words.cut()
        if self._exchange is not None:
            self._exchange.cut()

    async def _take(self) -> TakenJob | None:
        exchange = await self._connector.connect(lambda: BareExchange(self._question))
        self._exchange = exchange
        try:
            answer = await exchange.answered
        except BaseException:
            exchange.cut()
            raise
        if answer.error or answer.empty:
            exchange.close()
            if not answer.empty:
                raise FrontendRefused(answer.error)
            return None
        exchange.job = TakenJob(answer.arguments, answer.limit_seconds)
        return exchange.job


def _words(reason: Failure) -> str:
    return str(reason.getErrorMessage()).rstrip(".")
