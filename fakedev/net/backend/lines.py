"""A backend's work in JSON lines: one connection for many jobs, which waits for work at the frontend."""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from fakedev.net.backend.frontend_talk import FrontendTalk, LineJob, RequestRefused
from fakedev.net.backend.last_words import LastWords
from fakedev.net.backend.sources import BackendNames, FrontendLost, FrontendRefused, TakenJob
from fakedev.net.lines.client import FrontendConnector
from fakedev.workqueue.outcome import Report


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
        self._last_words = LastWords(clock)

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
