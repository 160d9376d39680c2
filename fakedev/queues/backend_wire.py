"""A backend's jobs over JSON lines and over bare JSON.

JSON lines: one connection for many jobs, which waits for work at the frontend. Bare JSON: a connection for each job,
as the original programs have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from fakedev.lines.grammar import ProtocolError
from fakedev.queues.backend import JobSource, RunLocation, TakenJob
from fakedev.queues.bare import BareResult, BareWork, encode_bare_ask, encode_bare_result, parse_bare_work
from fakedev.queues.frontend_client import BareClient, FrontendConnector, FrontendLost, FrontendRefused, JsonClient
from fakedev.queues.job import Report
from fakedev.queues.messages import BackendMessage, Done, Refusal, Withdrawn, encode_request, parse_backend_message
from fakedev.queues.run_reports import unfinished_report


class BareSource(JobSource):
    """Gets jobs in bare JSON: asks once for each job, on a new connection."""

    log = Logger()
    waits_for_work = False
    takes_back = False
    _client: BareClient[BareWork] | None

    def __init__(self, connector: FrontendConnector, queue: str, location: RunLocation, clock: IReactorTime) -> None:
        super().__init__(connector, queue, location, clock)
        self._closed: Deferred[str] = Deferred()  # fires when the connection is closed
        self._held: TakenJob | None = None

    async def finish(self, job: TakenJob, report: Report) -> None:
        """Send the result, and wait until it is sent and the connection is closed."""
        client = self._client
        if client is None or self._held is not job or job.withdrawn:
            raise FrontendLost(job.withdrawn)
        self._held = None
        location = self._location()
        result = BareResult(
            location["pod"],
            location["node"],
            location["device"],
            report.error,
            timeout_seconds=report.timeout_seconds,
            run_seconds=report.run_seconds or 0.0,
            exit_code=report.exit_code,
        )
        client.send(encode_bare_result(result))
        client.close()
        await self._closed

    async def give_back(self, job: TakenJob, reason: str, run_seconds: float = 0.0) -> None:
        """Send the reason as the result: the original's protocol cannot give a job back."""
        await self.finish(job, unfinished_report(reason, run_seconds))

    async def _take(self, idle_seconds: float) -> TakenJob | None:
        closed: Deferred[str] = Deferred()
        client = await self._connector.connect(
            lambda: BareClient(parse_bare_work, lost=closed.callback, log=self.log.debug)
        )
        self._client, self._closed = client, closed
        answer: Deferred[BareWork] = Deferred()
        client.request(encode_bare_ask(self._queue), answer.callback, answer.errback)
        try:
            work = await answer
        except ProtocolError as error:
            client.abort()
            raise (FrontendLost if error.code == "busy" else FrontendRefused)(error.text) from None
        except BaseException:
            client.abort()
            raise
        if work.error or work.empty:
            client.close()
            if not work.empty:
                raise FrontendRefused(work.error)
            return None
        job = self._held = TakenJob(work.arguments, work.limit_seconds)
        closed.addCallback(self._withdraw, job)
        return job

    def _withdraw(self, reason: str, job: TakenJob) -> None:
        if self._held is job:
            job.withdraw(f"the frontend closed the connection: {reason}")


#: Codes of refusals that may be over after a while.
_TEMPORARY: Final = ("busy", "full")


class RequestRefused(Exception):
    """The frontend refuses one request; the connection stays open."""


class LinesSource(JobSource):
    """Gets jobs in JSON lines."""

    log = Logger()
    waits_for_work = True
    takes_back = True
    _client: JsonClient[BackendMessage] | None

    def __init__(self, connector: FrontendConnector, queue: str, location: RunLocation, clock: IReactorTime) -> None:
        super().__init__(connector, queue, location, clock)
        # Of the connection:
        self._held: TakenJob | None = None
        self._sent_names: dict[str, str] = {}
        self._request_id = 0
        self._requests: dict[int, Deferred[Done]] = {}

    async def take(self, idle_seconds: float) -> TakenJob | None:
        try:
            return await super().take(idle_seconds)
        except RequestRefused as refused:
            raise FrontendRefused(str(refused)) from None

    async def finish(self, job: TakenJob, report: Report) -> None:
        """Send the result, and wait until the frontend has confirmed it."""
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

    async def _take(self, idle_seconds: float) -> TakenJob | None:
        if self._client is None or self._client.is_lost:
            self._sent_names, self._request_id = {}, 0
            self._client = await self._connector.connect(
                lambda: JsonClient(parse_backend_message, self._received, self._lost, log=self.log.debug)
            )
        names = self._location()
        if names != self._sent_names:
            self._sent_names = names
            self._request("hello", names).addErrback(lambda _: None)  # if the connection fails, so does ``take``
        done = await self._request("take", {"queue": self._queue, "wait": idle_seconds})
        if not done.jobs:
            return None
        job = done.jobs[0]
        self._held = TakenJob(job.arguments, job.limit_seconds, job.id)
        return self._held

    async def _settle(self, job: TakenJob, verb: str, arguments: Mapping[str, object]) -> None:
        """Report how the job ended, and wait until the frontend has confirmed it."""
        if self._held is not job or job.withdrawn:
            raise FrontendLost(job.withdrawn)
        self._held = None
        try:
            await self._wait(self._request(verb, {"job": job.id, **arguments}))
        except RequestRefused as refused:
            self.log.warn("the frontend does not accept the result of a job: {refused}", refused=refused)
        except CancelledError:
            raise FrontendLost("the frontend did not confirm a result") from None

    def _request(self, verb: str, arguments: Mapping[str, object]) -> Deferred[Done]:
        """Send a request; fires with Done, fails with RequestRefused, FrontendLost or FrontendRefused."""
        assert self._client is not None
        self._request_id += 1
        answer = self._requests[self._request_id] = Deferred()
        self._client.send(encode_request(verb, self._request_id, arguments))
        return answer

    def _received(self, message: BackendMessage) -> None:
        assert self._client is not None
        match message:
            case Done(request) if request in self._requests:
                self._requests.pop(request).callback(message)
            case Refusal(None, code, text):
                fault = FrontendLost if code in _TEMPORARY else FrontendRefused
                self._client.fail(fault(f"{code}: {text}"))
            case Refusal(request, code, text) if request in self._requests:
                self._requests.pop(request).errback(RequestRefused(f"{code}: {text}"))
            case Withdrawn(job, reason) if self._held is not None and self._held.id == job:
                self._held.withdraw(f"the frontend withdrew it: {reason}")

    def _lost(self, fault: Exception) -> None:
        pending, self._requests = self._requests, {}
        for answer in pending.values():
            answer.errback(fault)
        if self._held is not None:
            self._held.withdraw(str(fault))
