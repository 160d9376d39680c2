"""A backend's jobs over bare JSON: a connection for each job, as the original programs have it."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from fakedev.net.backend.sources import JobSource, RunLocation, TakenJob
from fakedev.net.lines.client import BareClient, FrontendConnector, FrontendLost, FrontendRefused
from fakedev.wire.bare_queue import BareResult, BareWork, parse_bare_work
from fakedev.wire.bare_queue_encoding import encode_bare_ask, encode_bare_result
from fakedev.wire.errors import ProtocolError
from fakedev.workqueue.backend_run import unfinished_report
from fakedev.workqueue.outcome import Report


class BareSource(JobSource):
    """Gets jobs in bare JSON: asks once for each job, on a new connection."""

    log = Logger()
    waits_for_work = False
    takes_back = False

    def __init__(self, connector: FrontendConnector, queue: str, location: RunLocation, clock: IReactorTime) -> None:
        super().__init__(connector, queue, location, clock)
        self._client: BareClient[BareWork] | None = None
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

    def _abort(self) -> None:
        if self._client is not None:
            self._client.abort()

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
