"""All that pages and logs show of the queues, read when it is asked for.

The work queues in our own metrics: a few totals.

Statistics of the queues in the log, at an interval.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from twisted.application.service import Service
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from fakedev.net.queues.backend_port import QueueBackendFactory
from fakedev.net.queues.client_port import QueueClientFactory
from fakedev.net.queues.hub import QueueHub
from fakedev.workqueue.broker import QueueSnapshot
from fakedev.workqueue.outcome import Outcome
from fakedev.workqueue.spec import BrokerSpec
from fakedev.workqueue.statistics import Interval, QueueStatistics


class QueueFigure(NamedTuple):
    """One queue.

    :param seconds: the time by the broker's clock.
    :param now: how it is.
    :param counted: what was counted of it.
    """

    seconds: float
    now: QueueSnapshot
    counted: QueueStatistics


class QueueFigures:
    """The figures of all queues and of their ports.

    :ivar broker: the queues.
    """

    def __init__(self, hub: QueueHub, clients: QueueClientFactory, backends: QueueBackendFactory) -> None:
        self.broker = hub.broker
        self._hub = hub
        self._clients = clients
        self._backends = backends

    @property
    def spec(self) -> BrokerSpec:
        """What the configuration says of the queues."""
        return self.broker.spec

    def of(self, name: str) -> QueueFigure:
        """One queue that there is."""
        seconds = self._hub.now()
        return QueueFigure(seconds, self.broker.snapshot(name, seconds), self.broker.statistics(name))

    def all(self) -> list[QueueFigure]:
        """Every queue, in the order of the configuration."""
        return [self.of(name) for name in self.broker.queue_names]

    def client_connections(self) -> int:
        """How many connections clients have made."""
        return self._clients.accepted

    def backend_connections(self) -> int:
        """How many connections backends have made."""
        return self._backends.accepted


class QueueTotals:
    """All queues together, for our own metrics page."""

    def __init__(self, figures: QueueFigures) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        """See Group."""
        queues = self._figures.all()
        states = GaugeMetricFamily("fakedev_queues_requests", "Requests in all queues, by state.", labels=["state"])
        states.add_metric(["waiting"], sum(queue.now.waiting for queue in queues))
        states.add_metric(["running"], sum(queue.now.running for queue in queues))
        ended = CounterMetricFamily("fakedev_queues_ended", "Requests of all queues that are over.", labels=["outcome"])
        for outcome in Outcome:
            ended.add_metric([outcome.value], sum(queue.counted.outcomes[outcome] for queue in queues))
        made = CounterMetricFamily("fakedev_queues_connections", "Connections made to the ports.", labels=["port"])
        made.add_metric(["clients"], self._figures.client_connections())
        made.add_metric(["backends"], self._figures.backend_connections())
        yield from (states, ended, made)


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
