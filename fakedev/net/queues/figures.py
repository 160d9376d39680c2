"""The figures of the work queues for pages and the API, and their lines in the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from twisted.application.service import Service
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from fakedev.net.queues.backend_port import QueueBackendFactory
from fakedev.net.queues.client_port import QueueClientFactory
from fakedev.net.queues.hub import QueueHub
from fakedev.net.queues.log_writer import LogWriter
from fakedev.spec.recent import Recent
from fakedev.workqueue.outcome import Outcome
from fakedev.workqueue.queue import QueueSnapshot
from fakedev.workqueue.spec import BrokerSpec
from fakedev.workqueue.statistics import Interval, QueueStatistics

#: Queues with charts.
MAX_CHARTED: Final = 100
#: Points of the last minutes, one a second.
_DENSE: Final = 600


class QueueFigure(NamedTuple):
    """The figures of one queue.

    :param seconds: the time by the broker's clock.
    :param now: its state.
    :param counted: its counters and histograms.
    """

    seconds: float
    now: QueueSnapshot
    counted: QueueStatistics


class QueueFigures:
    """The figures of all queues and of their ports."""

    def __init__(self, hub: QueueHub, clients: QueueClientFactory, backends: QueueBackendFactory) -> None:
        self.broker = hub.broker
        self._hub = hub
        self._clients = clients
        self._backends = backends

    @property
    def spec(self) -> BrokerSpec:
        """The configuration of the queues."""
        return self.broker.spec

    @property
    def logs(self) -> Mapping[str, LogWriter]:
        """The writers of the logs of durable queues, by queue."""
        return self._hub.logs.by_queue

    def of(self, name: str) -> QueueFigure:
        """The figures of an existing queue."""
        seconds = self._hub.now()
        return QueueFigure(seconds, self.broker.snapshot(name, seconds), self.broker.statistics(name))

    def all(self) -> list[QueueFigure]:
        """The figures of all queues, in the order of the configuration."""
        return [self.of(name) for name in self.broker.queue_names]

    def connections(self) -> dict[str, int]:
        """How many connections clients and backends have made so far, by port."""
        return {"clients": self._clients.accepted, "backends": self._backends.accepted}


class QueuePoint(NamedTuple):
    """The state of a queue at one time, as charts and frames show it."""

    seconds: float
    waiting: int
    running: int
    workers_idle: int
    workers_busy: int
    arrivals_per_second: float
    services_per_second: float


def queue_point(figures: QueueFigures, name: str) -> QueuePoint:
    """The present state of an existing queue."""
    seconds, now, counted = figures.of(name)
    rates = counted.arrivals_per_second(seconds), counted.services_per_second(seconds)
    return QueuePoint(seconds, now.waiting, now.running, now.workers_idle, now.workers_busy, *rates)


class QueueHistory(Service):
    """The last hour of the first MAX_CHARTED queues, noted once a second."""

    log = Logger()

    def __init__(self, figures: QueueFigures, clock: IReactorTime) -> None:
        self.setName("queue-history")
        self._figures = figures
        self._past: dict[str, Recent[QueuePoint]] = {}
        self._loop = LoopingCall(self._note)
        self._loop.clock = clock

    def startService(self) -> None:
        super().startService()
        self._loop.start(1.0).addErrback(lambda failure: self.log.failure("the charts of the queues stopped", failure))

    def stopService(self) -> None:
        super().stopService()
        if self._loop.running:
            self._loop.stop()

    def of(self, name: str, seconds: float | None) -> dict[str, Any]:
        """The past of a queue: how many seconds ago each point was, and its values, the oldest point first.

        :param seconds: the time span, which ends now; None: the last ten minutes.
        """
        points = list(self._past[name].within(seconds)) if name in self._past else []
        now = self._figures.of(name).seconds
        fields = enumerate(QueuePoint._fields)
        columns = {field.replace("_", "-"): [point[row] for point in points] for row, field in fields}
        times = columns.pop("seconds")
        return {"queue": name, "seconds-ago": [round(now - time, 3) for time in times], **columns}

    def _note(self) -> None:
        names = self._figures.broker.queue_names[:MAX_CHARTED]
        self._past = {name: self._past.get(name) or Recent(_DENSE) for name in names}
        for name, past in self._past.items():
            past.add(queue_point(self._figures, name))


class QueueLog(Service):
    """Logs a line for each queue at the end of each interval."""

    log = Logger()

    def __init__(self, figures: QueueFigures, interval_seconds: float, clock: IReactorTime) -> None:
        self.setName("queue-log")
        self._figures = figures
        self._interval_seconds = interval_seconds
        self._loop = LoopingCall(self._log_queues)
        self._loop.clock = clock

    def startService(self) -> None:
        super().startService()
        self._loop.start(self._interval_seconds, now=False)

    def stopService(self) -> None:
        super().stopService()
        self._loop.stop()

    def _log_queues(self) -> None:
        # An error must not end the loop: the next interval may succeed.
        try:
            for queue in self._figures.all():
                self.log.info("{line}", line=interval_line(queue, queue.counted.end_interval()), log_unlimited=True)
        except Exception:
            self.log.failure("the statistics of the queues could not be logged")


def interval_line(queue: QueueFigure, interval: Interval) -> str:
    """The state of a queue and the events of an interval in one line, with the place of the longest run."""
    ends = ", ".join(f"{interval.ended[outcome]} {outcome.value}" for outcome in Outcome if interval.ended[outcome])
    line = (
        f"queue {queue.now.name}: {queue.now.waiting} waiting, {queue.now.running} running; "
        f"since the last line {interval.put} put, {ends or 'none over'}; "
        f"longest wait {interval.longest_wait_seconds:.3f} s, run {interval.longest_run_seconds:.3f} s, "
        f"total {interval.longest_total_seconds:.3f} s"
    )
    if not interval.node and not interval.pod:
        return line
    return f"{line} (longest run on node {interval.node or 'unknown'}, pod {interval.pod or 'unknown'})"
