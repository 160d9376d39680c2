"""The figures of the work queues for pages, API and log, and the page /queues/metrics.

The page has the series of the original frontend under their own names, and further ones. prometheus_client does not
build its text: it writes ``3.0`` where the original has ``3``, sorts labels by name, and takes five times as long.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from twisted.application.service import Service
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from fakedev import __version__
from fakedev.base.histograms import JOB_BUCKETS, Histogram, Recent
from fakedev.base.units import go_number, python_number
from fakedev.queues.job import Outcome
from fakedev.queues.queue import QueueSnapshot
from fakedev.queues.settings import BrokerSpec
from fakedev.queues.statistics import ENDS, Interval, QueueStatistics
from fakedev.web.encoding import choose_exposition
from fakedev.web.request import Request
from fakedev.web.resource import Resource
from fakedev.web.response import PageStatistics, Response

if TYPE_CHECKING:
    from fakedev.queues.backend_port import QueueBackendFactory
    from fakedev.queues.client_port import QueueClientFactory
    from fakedev.queues.log_file import LogWriter
    from fakedev.queues.port import QueueHub

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
        return self.broker.spec

    @property
    def logs(self) -> Mapping[str, LogWriter]:
        """The writers of the logs of durable queues, by queue."""
        return self._hub.logs.by_queue

    def of(self, name: str) -> QueueFigure:
        seconds = self._hub.now()
        return QueueFigure(seconds, self.broker.snapshot(name, seconds), self.broker.statistics(name))

    def all(self) -> list[QueueFigure]:
        return [self.of(name) for name in self.broker.queue_names]

    @property
    def silent_backends(self) -> int:
        """Connected backends that neither wait for a job nor have one; a stopped process is one of them."""
        return len(self._backends.silent)

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
    seconds, now, counted = figures.of(name)
    rates = counted.arrivals_per_second(seconds), counted.services_per_second(seconds)
    return QueuePoint(seconds, now.waiting, now.running, now.workers_idle, now.workers_busy, *rates)


class _Repeated(Service, ABC):
    """Does a step at each interval; an error does not end it: the next step may succeed."""

    log = Logger()
    fault = "the charts of the queues stopped"

    def __init__(self, name: str, figures: QueueFigures, seconds: float, clock: IReactorTime) -> None:
        self.setName(name)
        self._figures = figures
        self._seconds = seconds
        self._loop = LoopingCall(self._try_step)
        self._loop.clock = clock

    @abstractmethod
    def step(self) -> None: ...

    def _try_step(self) -> None:
        try:
            self.step()
        except Exception:
            self.log.failure(self.fault)

    def startService(self) -> None:
        super().startService()
        self._loop.start(self._seconds, now=False)

    def stopService(self) -> None:
        super().stopService()
        if self._loop.running:
            self._loop.stop()


class QueueHistory(_Repeated):
    """The last hour of the first MAX_CHARTED queues, noted once a second."""

    def __init__(self, figures: QueueFigures, clock: IReactorTime) -> None:
        super().__init__("queue-history", figures, 1.0, clock)
        self._past: dict[str, Recent[QueuePoint]] = {}

    def startService(self) -> None:
        super().startService()
        self._try_step()

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

    def step(self) -> None:
        names = self._figures.broker.queue_names[:MAX_CHARTED]
        self._past = {name: self._past.get(name) or Recent(_DENSE) for name in names}
        for name, past in self._past.items():
            past.add(queue_point(self._figures, name))


class QueueLog(_Repeated):
    """Logs a line for each queue at the end of each interval."""

    log = Logger()
    fault = "the statistics of the queues could not be logged"

    def __init__(self, figures: QueueFigures, interval_seconds: float, clock: IReactorTime) -> None:
        super().__init__("queue-log", figures, interval_seconds, clock)

    def step(self) -> None:
        for queue in self._figures.all():
            self.log.info("{line}", line=interval_line(queue, queue.counted.end_interval()))


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


#: The page begins with a line that names the program, as the original's does.
TITLE: Final = f"# fakedev {__version__}: work queues, with the series of the scalability tester's frontend\n".encode()
#: The outcomes that count as failures in the original's series, which have names for success and failure only.
FAILURES: Final = (Outcome.FAILURE, Outcome.TIMEOUT, Outcome.LOST)
_BOUNDS: Final = tuple(python_number(bound) for bound in (*JOB_BUCKETS, math.inf))


class QueueMetricsPage(Resource):
    """/queues/metrics of the service, /metrics of ``fakedev-frontend``."""

    def __init__(self, figures: QueueFigures, statistics: PageStatistics, allow_head: bool = True) -> None:
        self._figures = figures
        self.statistics = statistics
        self.allow_head = allow_head

    def get(self, request: Request) -> Response:
        """The page as text 0.0.4, or as OpenMetrics, which has no room for the title."""
        form = choose_exposition(request.getHeader(b"accept"))
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
    ("fakedev_queue_paused", "1 while no job is handed out.", lambda queue: int("paused" in queue.now.state)),
    ("fakedev_queue_buried", "Buried jobs, which wait for kick.", "now.buried"),
    ("fakedev_queue_arrivals_per_second", "Accepted requests, over the window.", "counted.arrivals_per_second"),
    ("fakedev_queue_services_per_second", "Runs that ended, over the window.", "counted.services_per_second"),
    ("fakedev_queue_puts_total", "Accepted requests.", "counted.puts"),
    ("fakedev_queue_retries_total", "Jobs that were queued again because their backend had left.", "counted.retries"),
    ("fakedev_queue_burials_total", "Jobs buried so far.", "counted.burials"),
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
        yield self._declared(name, "gauge", "Backends that wait for a job (idle), and that have one (busy).")
        for queue in self._queues:
            yield f'{name}{{queue="{queue.now.name}",state="idle"}} {queue.now.workers_idle}'
            yield f'{name}{{queue="{queue.now.name}",state="busy"}} {queue.now.workers_busy}'

    def _ended(self) -> Iterator[str]:
        name = "fakedev_queue_ended_total"
        yield self._declared(name, "counter", "Requests that are over; refused ones were not accepted.")
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
