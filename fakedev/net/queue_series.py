"""The metric families of the queues: those of the original frontend under their own names, and ours beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from fakedev.net.queue_figures import QueueFigure, QueueFigures
from fakedev.workqueue.histogram import Histogram
from fakedev.workqueue.outcome import Outcome
from fakedev.workqueue.spec import BrokerSpec
from fakedev.workqueue.statistics import ENDS

#: What counts as a failure in the original's series, which have names for success and failure only.
FAILURES: Final = (Outcome.FAILURE, Outcome.TIMEOUT, Outcome.LOST)


class _Row(NamedTuple):
    """A family with one series for each queue. Counters get ``_total`` behind their name."""

    family: type[CounterMetricFamily] | type[GaugeMetricFamily]
    name: str
    text: str
    value: Callable[[QueueFigure], float]


_ORIGINALS: Final = (
    _Row(
        GaugeMetricFamily,
        "hpa_queue_all",
        "Requests that wait or run.",
        lambda queue: queue.now.waiting + queue.now.running,
    ),
    _Row(GaugeMetricFamily, "hpa_queue_waiting", "Requests that wait for a backend.", lambda queue: queue.now.waiting),
    _Row(GaugeMetricFamily, "hpa_queue_running", "Requests that a backend has.", lambda queue: queue.now.running),
    _Row(
        CounterMetricFamily,
        "hpa_queue_success",
        "Requests that succeeded.",
        lambda queue: queue.counted.outcomes[Outcome.SUCCESS],
    ),
    _Row(
        CounterMetricFamily,
        "hpa_queue_failure",
        "Requests that failed, were out of time, or whose backend was lost.",
        lambda queue: sum(queue.counted.outcomes[outcome] for outcome in FAILURES),
    ),
    _Row(
        CounterMetricFamily,
        "hpa_queue_disconnect",
        "Requests whose client left before they were over.",
        lambda queue: queue.counted.disconnects,
    ),
)
_MAXIMA: Final = (
    _Row(
        GaugeMetricFamily,
        "hpa_queue_maxrun_seconds",
        "The longest run that ended lately.",
        lambda queue: queue.counted.longest_run_seconds(queue.seconds),
    ),
    _Row(
        GaugeMetricFamily,
        "hpa_queue_maxwait_seconds",
        "The longest wait that ended lately.",
        lambda queue: queue.counted.longest_wait_seconds(queue.seconds),
    ),
    _Row(
        GaugeMetricFamily,
        "hpa_queue_maxtotal_seconds",
        "The longest wait and run of a request that ended lately.",
        lambda queue: queue.counted.longest_total_seconds(queue.seconds),
    ),
)
_OURS: Final = (
    _Row(
        GaugeMetricFamily,
        "fakedev_queue_oldest_waiting_seconds",
        "How long the oldest waiting request has waited.",
        lambda queue: queue.now.oldest_seconds,
    ),
    _Row(
        GaugeMetricFamily,
        "fakedev_queue_waiting_bytes",
        "What the waiting requests count for in max-bytes.",
        lambda queue: queue.now.waiting_bytes,
    ),
    _Row(
        GaugeMetricFamily,
        "fakedev_queue_paused",
        "1 while nothing is handed out.",
        lambda queue: int("paused" in queue.now.state),
    ),
    _Row(GaugeMetricFamily, "fakedev_queue_buried", "Jobs that are laid aside.", lambda queue: queue.now.buried),
    _Row(
        GaugeMetricFamily,
        "fakedev_queue_arrivals_per_second",
        "Requests taken in, over the window.",
        lambda queue: queue.counted.arrivals_per_second(queue.seconds),
    ),
    _Row(
        GaugeMetricFamily,
        "fakedev_queue_services_per_second",
        "Runs that ended, over the window.",
        lambda queue: queue.counted.services_per_second(queue.seconds),
    ),
    _Row(CounterMetricFamily, "fakedev_queue_puts", "Requests taken in.", lambda queue: queue.counted.puts),
    _Row(
        CounterMetricFamily,
        "fakedev_queue_retries",
        "Jobs offered again because their backend had left.",
        lambda queue: queue.counted.retries,
    ),
    _Row(CounterMetricFamily, "fakedev_queue_burials", "Jobs laid aside so far.", lambda queue: queue.counted.burials),
)


class QueueSeries(Collector):
    """The families of all queues."""

    def __init__(self, figures: QueueFigures) -> None:
        self._figures = figures

    def collect(self) -> Iterable[Metric]:
        """The original's families, then ours."""
        figures = self._figures
        queues = figures.all()
        yield CounterMetricFamily(
            "hpa_client_connections", "Connections that clients made.", figures.client_connections()
        )
        yield CounterMetricFamily(
            "hpa_worker_connections", "Connections that backends made.", figures.backend_connections()
        )
        for row in _ORIGINALS:
            yield _family(row, queues, "name")
        interval = _interval_label(figures.spec)
        for row in _MAXIMA:
            yield _family(row, queues, "name", interval)
        for row in _OURS:
            yield _family(row, queues, "queue")
        yield from _by_state_and_outcome(queues)


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


def _interval_label(spec: BrokerSpec) -> Mapping[str, str]:
    """What the original puts on the maxima of an interval."""
    return {"interval": f"{spec.interval_seconds:g}s"} if spec.maxima == "interval" else {}


def _family(row: _Row, queues: Sequence[QueueFigure], label: str, others: Mapping[str, str] | None = None) -> Metric:
    others = others or {}
    family = row.family(row.name, row.text, labels=[label, *others])
    for queue in queues:
        family.add_metric([queue.now.name, *others.values()], row.value(queue))
    return family


def _by_state_and_outcome(queues: Sequence[QueueFigure]) -> Iterable[Metric]:
    workers = GaugeMetricFamily(
        "fakedev_queue_workers", "Backends that wait for work, and that have some.", labels=["queue", "state"]
    )
    labels = ["queue", "outcome"]
    ended = CounterMetricFamily(
        "fakedev_queue_ended", "Requests that are over; refused ones were never taken in.", labels=labels
    )
    wait = HistogramMetricFamily(
        "fakedev_queue_wait_seconds", "From put to take, or to the end of what was never taken.", labels=labels
    )
    run = HistogramMetricFamily("fakedev_queue_run_seconds", "Run times.", labels=labels)
    for queue in queues:
        name = queue.now.name
        workers.add_metric([name, "idle"], queue.now.workers_idle)
        workers.add_metric([name, "busy"], queue.now.workers_busy)
        for outcome, count in queue.counted.outcomes.items():
            ended.add_metric([name, outcome.value], count)
        for outcome in ENDS:
            # Success always, so that a panel has its series from the beginning; the others once they happened.
            if queue.counted.outcomes[outcome] or outcome is Outcome.SUCCESS:
                _add_histogram(wait, [name, outcome.value], queue.counted.wait[outcome])
                _add_histogram(run, [name, outcome.value], queue.counted.run[outcome])
    return (workers, ended, wait, run)


def _add_histogram(family: HistogramMetricFamily, labels: Sequence[str], histogram: Histogram) -> None:
    buckets = [(floatToGoString(bound), count) for bound, count in histogram.cumulative()]
    family.add_metric(labels, buckets, histogram.total_seconds)
