"""Running a backend's command once, without any frontend."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from fakedev.net.backend.backend_device import DeviceFile
from fakedev.net.backend.worker import Start
from fakedev.net.system.runs import CannotRun, Run
from fakedev.workqueue.backend import BackendCommand, RequestFault
from fakedev.workqueue.backend_pace import End


class OneRun:
    """Runs the command as it would be for a request without arguments. See BackendWorker.

    :param grace_seconds: how long it may still run when it is told to leave.
    """

    log = Logger()

    def __init__(
        self, start: Start, command: BackendCommand, device: DeviceFile, grace_seconds: float, clock: IReactorTime
    ) -> None:
        self._start = start
        self._command = command
        self._device = device
        self._grace_seconds = grace_seconds
        self._clock = clock
        self._run: Run | None = None

    async def work(self) -> End:
        """Run it; how that ended."""
        try:
            words = self._command.for_request((), self._device.path())
            self._run = self._start(words, self._command.limit_of(0))
        except (RequestFault, CannotRun) as fault:
            return End(1, str(fault))
        report = await self._run.ended
        if report.error:
            return End(1, report.error)
        return End(0, f"{words[0]} took {report.run_seconds or 0.0:.3f} s")

    def leave(self) -> None:
        """Stop it when the grace period is over."""
        if self._run is not None:
            self._clock.callLater(self._grace_seconds, self._run.stop)

    def cut(self) -> None:
        """End it at once."""
        if self._run is not None:
            self._run.kill()
