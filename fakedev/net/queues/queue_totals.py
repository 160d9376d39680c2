"""The work queues in our own metrics: a few totals."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fakedev.net.queues.figures import QueueFigures
from fakedev.workqueue.outcome import Outcome


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
