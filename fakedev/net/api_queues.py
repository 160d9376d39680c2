"""/api/v1/queues: the work queues, as numbers for scalers and scripts."""

from __future__ import annotations

from typing import Any

from twisted.web.resource import Resource

from fakedev.net.api_base import ApiResource, page_of
from fakedev.net.http_request import GuardedRequest
from fakedev.net.http_response import Response, json_response
from fakedev.net.queue_figures import QueueFigures
from fakedev.workqueue.histogram import Histogram
from fakedev.workqueue.statistics import ENDS


class Queues(ApiResource):
    """The queues; ``limit`` and ``offset`` choose some.

    :param figures: None when the configuration has no queues.
    """

    def __init__(self, figures: QueueFigures | None) -> None:
        super().__init__()
        self._figures = figures

    def getChild(self, path: bytes, request: GuardedRequest) -> Resource:
        """A queue by name."""
        if not path and not request.postpath:
            return self
        name = path.decode("utf-8", "replace")
        if self._figures is None or name not in self._figures.names:
            return super().getChild(path, request)
        return QueueItem(self._figures, name)

    def get(self, request: GuardedRequest) -> Response:
        """The queues in the order of the configuration."""
        figures = self._figures
        names = figures.names if figures else ()
        shown = [_described(figures, names[place]) for place in page_of(request, len(names)) if figures]
        return json_response({"queues": shown, "total": len(names)})


class QueueItem(ApiResource):
    """One queue."""

    isLeaf = True

    def __init__(self, figures: QueueFigures, name: str) -> None:
        super().__init__()
        self._figures = figures
        self._name = name

    def get(self, request: GuardedRequest) -> Response:
        """The queue."""
        return json_response(_described(self._figures, self._name))


def _described(figures: QueueFigures, name: str) -> dict[str, Any]:
    """A queue as plain values: how it is, what was counted of it, and what its maxima and rates cover."""
    queue = figures.of(name)
    spec = figures.spec
    covered = {"window": spec.window_seconds, "interval": spec.interval_seconds, "since-scrape": None}[spec.maxima]
    ended = {outcome.value: count for outcome, count in queue.counted.outcomes.items()}
    return {
        "name": name,
        "state": queue.now.state,
        "waiting": queue.now.waiting,
        "running": queue.now.running,
        "buried": queue.now.buried,
        "waiting-bytes": queue.now.waiting_bytes,
        "oldest-waiting-seconds": queue.now.oldest_seconds,
        "workers": {"idle": queue.now.workers_idle, "busy": queue.now.workers_busy},
        "counts": {
            "put": queue.counted.puts,
            **ended,
            "disconnects": queue.counted.disconnects,
            "retries": queue.counted.retries,
            "burials": queue.counted.burials,
        },
        "rates": {
            "window-seconds": spec.window_seconds,
            "arrivals-per-second": queue.counted.arrivals_per_second(queue.seconds),
            "services-per-second": queue.counted.services_per_second(queue.seconds),
        },
        "maxima": {
            "window-seconds": covered,
            "run-seconds": queue.counted.longest_run_seconds(queue.seconds),
            "wait-seconds": queue.counted.longest_wait_seconds(queue.seconds),
            "total-seconds": queue.counted.longest_total_seconds(queue.seconds),
        },
        "wait-seconds": {outcome.value: _histogram(queue.counted.wait[outcome]) for outcome in ENDS},
        "run-seconds": {outcome.value: _histogram(queue.counted.run[outcome]) for outcome in ENDS},
    }


def _histogram(histogram: Histogram) -> dict[str, Any]:
    """Buckets as pairs of upper bound and how many values are not above it; the last bound, infinity, is null."""
    buckets = histogram.cumulative()
    return {
        "count": buckets[-1][1],
        "sum": histogram.total_seconds,
        "buckets": [[None if bound == float("inf") else bound, count] for bound, count in buckets],
    }
