"""A backend's work in JSON lines: one connection for many jobs, which waits for work at the frontend.

A connection to a frontend that speaks JSON lines: requests, their answers, and news of the job that is held.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure

from fakedev.net.backend.sources import BackendNames, FrontendLost, FrontendRefused, Shutdown, TakenJob
from fakedev.net.lines.client import FrontendConnector
from fakedev.wire.errors import ProtocolError
from fakedev.wire.queue_messages import (
    MAX_LINE_BYTES,
    Done,
    Refusal,
    Withdrawn,
    encode_request,
    parse_backend_message,
)
from fakedev.workqueue.outcome import Report

#: Refusals that are over after a while.
_PASSING: Final = ("busy", "full")


class LineJob(TakenJob):
    """A job with the id that the frontend knows it by."""

    def __init__(self, job_id: int, arguments: tuple[str, ...], limit_seconds: float) -> None:
        super().__init__(arguments, limit_seconds)
        self.id = job_id


class RequestRefused(Exception):
    """The frontend does not grant a request.

    :param code: one of the codes of doc/protocol-queue.txt.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class FrontendTalk(LineOnlyReceiver):
    """A connection with requests that wait for their answers.

    :ivar held: the job that the backend holds; withdrawn when the frontend says so, or the connection is lost.
    :ivar is_lost: whether the connection is.
    """

    log = Logger()
    delimiter = b"\n"
    MAX_LENGTH = MAX_LINE_BYTES

    def __init__(self) -> None:
        self.held: LineJob | None = None
        self.is_lost = False
        self._number = 0
        self._asked: dict[int, Deferred[Done]] = {}
        self._fault: Exception | None = None

    def ask(self, verb: str, arguments: Mapping[str, object]) -> Deferred[Done]:
        """Send a request; fires with its good answer, or fails with RequestRefused, FrontendLost or FrontendRefused."""
        self._number += 1
        asked: Deferred[Done] = Deferred()
        self._asked[self._number] = asked
        line = encode_request(verb, self._number, arguments)
        self.log.debug("sends {line!r}", line=line)
        self.transport.write(line)
        return asked

    def lineReceived(self, line: bytes) -> None:
        """Take an answer, or news."""
        self.log.debug("received {line!r}", line=line)
        try:
            heard = parse_backend_message(line)
        except ProtocolError as error:
            self._fail(FrontendRefused(f"it does not speak JSON lines, try the other protocol: {error.text}"))
            return
        match heard:
            case Done():
                self._answer(heard.request, heard)
            case Refusal(request=None):
                text = f"{heard.code}: {heard.text}"
                self._fail(FrontendLost(text) if heard.code in _PASSING else FrontendRefused(text))
            case Refusal():
                self._answer(heard.request, Failure(RequestRefused(heard.code, heard.text)))
            case Withdrawn() if self.held is not None and self.held.id == heard.job:
                self.held.withdraw(f"the frontend withdrew it: {heard.reason}")

    def lineLengthExceeded(self, line: bytes) -> None:
        """No answer is that long."""
        self._fail(FrontendRefused(f"its answer is longer than {self.MAX_LENGTH} bytes"))

    def connectionLost(self, reason: Failure) -> None:
        """Nothing more will be answered."""
        self.is_lost = True
        fault = self._fault or FrontendLost(f"the connection was closed: {reason.getErrorMessage().rstrip('.')}")
        asked, self._asked = self._asked, {}
        for one in asked.values():
            one.errback(fault)
        if self.held is not None:
            self.held.withdraw(str(fault))

    def cut(self) -> None:
        """Close now, whatever is still to be sent."""
        self.transport.abortConnection()

    def _answer(self, request: int, answer: Done | Failure) -> None:
        asked = self._asked.pop(request, None)
        if asked is not None:
            asked.callback(answer)  # a Failure goes on as one

    def _fail(self, fault: Exception) -> None:
        self._fault = fault
        self.cut()


class LinesSource:
    """Gets jobs in JSON lines. See JobSource.

    :param pod: name of this backend's pod, and so on, for results.
    """

    log = Logger()
    waits_for_work = True
    takes_back = True

    def __init__(self, connector: FrontendConnector, queue: str, names: BackendNames, clock: IReactorTime) -> None:
        self._connector = connector
        self._queue = queue
        self._names = names
        self._said: dict[str, str] = {}
        self._talk: FrontendTalk | None = None
        self._last_words = Shutdown(clock)

    async def take(self, idle_seconds: float) -> TakenJob | None:
        """Ask, and wait for work as long as that."""
        try:
            return await self._last_words.ask(self._take(idle_seconds))
        except RequestRefused as refused:
            raise FrontendRefused(str(refused)) from None

    async def finish(self, job: TakenJob, report: Report) -> None:
        """Send the result, and wait until it is taken."""
        arguments: dict[str, object] = {"exit-code": report.exit_code, "run": report.run_seconds or 0.0}
        if not report.error and not report.timeout_seconds:
            await self._settle(job, "done", arguments)
            return
        if report.timeout_seconds:
            arguments["timeout"] = report.timeout_seconds
        await self._settle(job, "fail", {**arguments, "reason": report.error})

    async def give_back(self, job: TakenJob, reason: str, run_seconds: float = 0.0) -> None:
        """Release the job: it waits again."""
        await self._settle(job, "release", {})

    def leave(self) -> None:
        """Wait for no more work, and a moment for an answer."""
        self._last_words.leave()

    def cut(self) -> None:
        """Drop the connection."""
        self._last_words.cut()
        if self._talk is not None:
            self._talk.cut()

    async def _take(self, idle_seconds: float) -> TakenJob | None:
        talk = self._talk
        if talk is None or talk.is_lost:
            talk = self._talk = await self._connector.connect(FrontendTalk)
            self._said = {}
        names = self._names.shown()
        if names != self._said:
            self._said = names
            talk.ask("hello", names).addErrback(lambda _: None)  # a fault of the connection shows in what follows
        done = await talk.ask("take", {"queue": self._queue, "wait": idle_seconds})
        if not done.jobs:
            return None
        given = done.jobs[0]
        talk.held = LineJob(given.id, given.arguments, given.limit_seconds)
        return talk.held

    async def _settle(self, job: TakenJob, verb: str, arguments: dict[str, object]) -> None:
        """Say what became of the job, and wait until that is taken."""
        talk = self._talk
        if talk is None or talk.held is not job or job.withdrawn:
            raise FrontendLost(job.withdrawn)
        job_id, talk.held = talk.held.id, None
        try:
            await self._last_words.wait(talk.ask(verb, {"job": job_id, **arguments}))
        except RequestRefused as refused:
            self.log.warn("the frontend does not take what became of a job: {refused}", refused=refused)
        except CancelledError:
            raise FrontendLost("it did not say whether it took a result") from None
