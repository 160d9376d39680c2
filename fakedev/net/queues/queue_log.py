"""Statistics of the queues in the log, at an interval."""

from __future__ import annotations

from typing import Any

from twisted.application.service import Service
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from fakedev.net.queues.figures import QueueFigure, QueueFigures
from fakedev.workqueue.outcome import Outcome
from fakedev.workqueue.statistics import Interval


class QueueLog(Service):
    """Logs a line for each queue at each end of an interval, with where its longest run was."""

    log = Logger()

    def __init__(self, figures: QueueFigures, interval_seconds: float, clock: Any) -> None:
        self.setName("queue-log")
        self._figures = figures
        self._interval_seconds = interval_seconds
        self._loop = LoopingCall(self._tell)
        self._loop.clock = clock

    def startService(self) -> None:
        """Begin the first interval."""
        super().startService()
        self._loop.start(self._interval_seconds, now=False)

    def stopService(self) -> None:
        """Say nothing more."""
        super().stopService()
        self._loop.stop()

    def _tell(self) -> None:
        # An error must not end the loop: the next interval may be better.
        try:
            for queue in self._figures.all():
                self.log.info("{line}", line=interval_line(queue, queue.counted.end_interval()), log_unlimited=True)
        except Exception:
            self.log.failure("The statistics of the queues could not be told")


def interval_line(queue: QueueFigure, interval: Interval) -> str:
    """How a queue is, and what happened to it in an interval, in a line for people."""
    ends = ", ".join(f"{interval.over[outcome]} {outcome.value}" for outcome in Outcome if interval.over[outcome])
    line = (
        f"queue {queue.now.name}: {queue.now.waiting} waiting, {queue.now.running} running; "
        f"since the last line {interval.put} put, {ends or 'none over'}; "
        f"longest wait {interval.longest_wait_seconds:.3f} s, run {interval.longest_run_seconds:.3f} s, "
        f"total {interval.longest_total_seconds:.3f} s"
    )
    if not interval.node and not interval.pod:
        return line
    return f"{line} (longest run on node {interval.node or 'unknown'}, pod {interval.pod or 'unknown'})"
