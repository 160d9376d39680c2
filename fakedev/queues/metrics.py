"""The metrics of fakedev itself about its queues: sums over all of them, and the logs of durable ones."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from fakedev.queues.figures import QueueFigures
from fakedev.queues.job import Outcome
from fakedev.web.metrics import histograms, labelled


def queue_totals(figures: QueueFigures) -> Iterable[Metric]:
    queues = figures.all()
    states = {state: sum(getattr(queue.now, state) for queue in queues) for state in ("waiting", "running")}
    ended = {outcome.value: sum(queue.counted.outcomes[outcome] for queue in queues) for outcome in Outcome}
    yield labelled(GaugeMetricFamily, "fakedev_queues_requests", "Requests in all queues, by state.", "state", states)
    yield labelled(
        CounterMetricFamily, "fakedev_queues_ended", "Requests of all queues that are over.", "outcome", ended
    )
    yield labelled(
        CounterMetricFamily, "fakedev_queues_connections", "Connections made to the ports.",
        "port", figures.connections(),
    )  # fmt: skip


def queue_log_metrics(figures: QueueFigures) -> Iterable[Metric]:
    """The logs of durable queues; nothing without such queues."""
    logs = figures.logs
    if not logs:
        return
    text = "Changes of a durable queue that are not on the disk yet: answers wait for them."
    waiting = {name: writer.pending_records for name, writer in logs.items()}
    yield labelled(GaugeMetricFamily, "fakedev_queue_log_pending_records", text, "queue", waiting)
    sizes = {name: writer.file.size for name, writer in logs.items()}
    yield labelled(GaugeMetricFamily, "fakedev_queue_log_bytes", "The log of a durable queue.", "queue", sizes)
    failed = {name: int(bool(writer.log.problem)) for name, writer in logs.items()}
    text = "1: the log cannot be written, and the queue accepts and hands out nothing; the service's log says why."
    yield labelled(GaugeMetricFamily, "fakedev_queue_log_failed", text, "queue", failed)
    text = "How long a write of the log takes, with its fsync."
    writes = {name: writer.writes for name, writer in logs.items()}
    yield histograms("fakedev_queue_log_write_seconds", text, "queue", writes)
