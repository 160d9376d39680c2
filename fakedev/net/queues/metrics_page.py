"""/queues/metrics: the series of the original frontend under their own names, and further ones.

The text is built here: prometheus_client takes ten times as long for a page of many queues.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final

from fakedev import __version__
from fakedev.net.http.negotiation import choose_exposition
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import GuardedResource
from fakedev.net.http.response import Response
from fakedev.net.http.statistics import PageStatistics
from fakedev.net.queues.figures import QueueFigure, QueueFigures
from fakedev.spec.histogram import JOB_BUCKETS, Histogram
from fakedev.spec.units import go_number, python_number
from fakedev.workqueue.outcome import Outcome
from fakedev.workqueue.spec import BrokerSpec
from fakedev.workqueue.statistics import ENDS

#: The page begins with a line that names the program, as the original's does.
TITLE: Final = f"# fakedev {__version__}: work queues, with the series of the scalability tester's frontend\n".encode()
#: The outcomes that count as failures in the original's series, which have names for success and failure only.
FAILURES: Final = (Outcome.FAILURE, Outcome.TIMEOUT, Outcome.LOST)
_BOUNDS: Final = tuple(python_number(bound) for bound in (*JOB_BUCKETS, math.inf))


class QueueMetricsPage(GuardedResource):
    """/queues/metrics of the service, /metrics of ``fakedev-frontend``."""

    def __init__(self, figures: QueueFigures, statistics: PageStatistics, allow_head: bool = True) -> None:
        self._figures = figures
        self.statistics = statistics
        self.allow_head = allow_head

    def get(self, request: GuardedRequest) -> Response:
        """The page as text 0.0.4, or as OpenMetrics, which has no room for the title."""
        form = choose_exposition(request.header(b"accept"))
        series = queue_series(self._figures, form.openmetrics)
        text = series + b"# EOF\n" if form.openmetrics else TITLE + series
        if request.method == b"GET":
            for queue in self._figures.all():
                queue.counted.scraped()
        return Response(200, text, form.content_type)


#: The families with one series for each queue: name, help, and the attribute of a QueueFigure (a
#: method gets the time), or a function of it.
_Row = tuple[str, str, str | Callable[[QueueFigure], float]]

_ORIGINALS: Final[tuple[_Row, ...]] = (
    ("hpa_queue_all", "Requests that wait or run.", lambda queue: queue.now.waiting + queue.now.running),
    ("hpa_queue_waiting", "Requests that wait for a backend.", "now.waiting"),
    ("hpa_queue_running", "Requests that a backend has.", "now.running"),
    ("hpa_queue_success_total", "Requests that succeeded.", lambda queue: queue.counted.outcomes[Outcome.SUCCESS]),
    (
        "hpa_queue_failure_total",
        "Requests that failed, were out of time, or whose backend was lost.",
        lambda queue: sum(queue.counted.outcomes[outcome] for outcome in FAILURES),
    ),
    (
        "hpa_queue_disconnect_total",
        "Requests whose client left before they were over; they are neither successes nor failures.",
        "counted.disconnects",
    ),
)
_MAXIMA: Final[tuple[_Row, ...]] = (
    ("hpa_queue_maxrun_seconds", "The longest run that ended lately.", "counted.longest_run_seconds"),
    ("hpa_queue_maxwait_seconds", "The longest wait that ended lately.", "counted.longest_wait_seconds"),
    (
        "hpa_queue_maxtotal_seconds",
        "The longest wait and run of a request that ended lately.",
        "counted.longest_total_seconds",
    ),
)
_OURS: Final[tuple[_Row, ...]] = (
    (
        "fakedev_queue_oldest_waiting_seconds",
        "How long the oldest waiting request has waited.",
        "now.oldest_seconds",
    ),
    ("fakedev_queue_waiting_bytes", "What the waiting requests count for in max-bytes.", "now.waiting_bytes"),
    ("fakedev_queue_paused", "1 while nothing is handed out.", lambda queue: int("paused" in queue.now.state)),
    ("fakedev_queue_buried", "Jobs that are laid aside.", "now.buried"),
    ("fakedev_queue_arrivals_per_second", "Requests taken in, over the window.", "counted.arrivals_per_second"),
    ("fakedev_queue_services_per_second", "Runs that ended, over the window.", "counted.services_per_second"),
    ("fakedev_queue_puts_total", "Requests taken in.", "counted.puts"),
    ("fakedev_queue_retries_total", "Jobs offered again because their backend had left.", "counted.retries"),
    ("fakedev_queue_burials_total", "Jobs laid aside so far.", "counted.burials"),
)
#: The families with a histogram for each queue and outcome: name, help, and the attribute of its statistics.
_HISTOGRAMS: Final = (
    ("fakedev_queue_wait_seconds", "From put to the last take, or to the end of what was never taken.", "wait"),
    ("fakedev_queue_run_seconds", "Run times.", "run"),
)


def queue_series(figures: QueueFigures, openmetrics: bool) -> bytes:
    """All families with a series for each queue.

    :param openmetrics: as OpenMetrics, without its last line, instead of text 0.0.4.
    """
    return ("\n".join(_Page(figures, openmetrics).lines()) + "\n").encode()


class _Page:
    """The lines of the page. Names of queues have no characters that a label must escape."""

    def __init__(self, figures: QueueFigures, openmetrics: bool) -> None:
        self._figures = figures
        self._queues = figures.all()
        self._openmetrics = openmetrics

    def lines(self) -> Iterator[str]:
        """The families of the original, then those of fakedev."""
        connections = self._figures.connections()
        for name, text, port in (
            ("hpa_client_connections_total", "Connections that clients made.", "clients"),
            ("hpa_worker_connections_total", "Connections that backends made.", "backends"),
        ):
            yield self._declared(name, "counter", text)
            yield f"{name} {connections[port]}"
        yield from self._families(_ORIGINALS, "name")
        yield from self._families(_MAXIMA, "name", _interval_label(self._figures.spec))
        yield from self._families(_OURS, "queue")
        yield from self._workers()
        yield from self._ended()
        for name, text, attribute in _HISTOGRAMS:
            yield self._declared(name, "histogram", text)
            for queue in self._queues:
                yield from _histograms(name, queue, getattr(queue.counted, attribute))

    def _declared(self, name: str, kind: str, text: str) -> str:
        if self._openmetrics and kind == "counter":
            name = name.removesuffix("_total")
        return f"# HELP {name} {text}\n# TYPE {name} {kind}"

    def _families(self, rows: Sequence[_Row], label: str, more_labels: str = "") -> Iterator[str]:
        for name, text, value in rows:
            yield self._declared(name, "counter" if name.endswith("_total") else "gauge", text)
            read: Callable[[QueueFigure], Any] = attrgetter(value) if isinstance(value, str) else value
            for queue in self._queues:
                found = read(queue)
                number = found(queue.seconds) if callable(found) else found
                yield f'{name}{{{label}="{queue.now.name}"{more_labels}}} {_number(number)}'

    def _workers(self) -> Iterator[str]:
        name = "fakedev_queue_workers"
        yield self._declared(name, "gauge", "Backends that wait for work, and that have some.")
        for queue in self._queues:
            yield f'{name}{{queue="{queue.now.name}",state="idle"}} {queue.now.workers_idle}'
            yield f'{name}{{queue="{queue.now.name}",state="busy"}} {queue.now.workers_busy}'

    def _ended(self) -> Iterator[str]:
        name = "fakedev_queue_ended_total"
        yield self._declared(name, "counter", "Requests that are over; refused ones were never taken in.")
        for queue in self._queues:
            for outcome, count in queue.counted.outcomes.items():
                yield f'{name}{{queue="{queue.now.name}",outcome="{outcome.value}"}} {count}'


def _histograms(name: str, queue: QueueFigure, histograms: dict[Outcome, Histogram]) -> Iterator[str]:
    """Success always, so that a panel has its series from the start; other outcomes once they have occurred."""
    for outcome in ENDS:
        if not queue.counted.outcomes[outcome] and outcome is not Outcome.SUCCESS:
            continue
        labels = f'queue="{queue.now.name}",outcome="{outcome.value}"'
        buckets = histograms[outcome].cumulative()
        for bound, (_, count) in zip(_BOUNDS, buckets, strict=True):
            yield f'{name}_bucket{{{labels},le="{bound}"}} {count}'
        yield f"{name}_count{{{labels}}} {buckets[-1][1]}"
        yield f"{name}_sum{{{labels}}} {_number(histograms[outcome].total_seconds)}"


def _interval_label(spec: BrokerSpec) -> str:
    """The label that the original puts on the maxima of an interval."""
    return f',interval="{spec.interval_seconds:g}s"' if spec.maxima == "interval" else ""


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return go_number(value) if math.isfinite(value) else "+Inf"
