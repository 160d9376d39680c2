"""/api/v1/queues: the work queues, as numbers for scalers and scripts."""

from __future__ import annotations

from functools import partial
from typing import Any

from fakedev.net.http.api import (
    ApiCollection,
    ApiHistory,
    ApiPage,
    ApiResource,
    counted,
    missing,
)
from fakedev.net.http.items import Items, described_key, items_response
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import Answer
from fakedev.net.queues.figures import QueueFigures, QueueHistory
from fakedev.net.queues.port import describe_queue
from fakedev.spec.histogram import Histogram
from fakedev.spec.web_paths import QUEUES
from fakedev.workqueue.spec import BrokerSpec
from fakedev.workqueue.statistics import ENDS


class Queues(ApiCollection):
    """The queues.

    :param figures, history: None when the configuration has no queues.
    """

    query = QUEUES.query

    def __init__(self, figures: QueueFigures | None, history: QueueHistory | None) -> None:
        self._figures = figures
        self._history = history

    def item(self, name: str) -> ApiResource:
        names = self._figures.broker.queue_names if self._figures else ()
        if self._figures is None or name not in names:
            return missing("queue", name, counted(names) if names else "the configuration has no queues")
        queue = ApiPage(partial(_described, self._figures, name))
        if self._history is not None:
            queue.put_child("history", ApiHistory(partial(self._history.of, name)))
        return queue

    def get(self, request: GuardedRequest) -> Answer:
        """The queues in the order of the configuration, or those that the query asks for.

        Each has its values when it is described.
        """

        def now() -> Items[str]:
            figures = self._figures
            if figures is None:
                return Items((), lambda _: str, str, lambda _: str)
            described = partial(_described, figures)
            return Items(
                figures.broker.queue_names,
                lambda _: described,
                lambda name: (name, figures.broker.snapshot(name, 0.0).state),
                partial(described_key, described),
                exists=lambda name: name in figures.broker.queue_names,
            )

        return items_response(request, QUEUES, "queues", now)


def _described(figures: QueueFigures, name: str) -> dict[str, Any]:
    """A queue: its values as on the ports, its rates and maxima with their time spans, its histograms by outcome."""
    seconds, snapshot, counted = figures.of(name)
    spec = figures.spec
    return {
        **describe_queue(figures.broker, name, seconds),
        "all": snapshot.waiting + snapshot.running,
        "retries": counted.retries,
        "window-seconds": spec.window_seconds,
        "arrivals-per-second": counted.arrivals_per_second(seconds),
        "services-per-second": counted.services_per_second(seconds),
        "maxima": spec.maxima,
        "maxima-seconds": _covered_seconds(spec),
        "maxrun-seconds": counted.longest_run_seconds(seconds),
        "maxwait-seconds": counted.longest_wait_seconds(seconds),
        "maxtotal-seconds": counted.longest_total_seconds(seconds),
        "wait-seconds": {outcome.value: _histogram(counted.wait[outcome]) for outcome in ENDS},
        "run-seconds": {outcome.value: _histogram(counted.run[outcome]) for outcome in ENDS},
    }


def _covered_seconds(spec: BrokerSpec) -> float | None:
    """The time span of the maxima; None when it depends on the scrapes."""
    return {"window": spec.window_seconds, "interval": spec.interval_seconds, "since-scrape": None}[spec.maxima]


def _histogram(histogram: Histogram) -> dict[str, Any]:
    """Buckets as pairs of an upper bound and the number of values up to it; the last bound, infinity, is null."""
    buckets = histogram.cumulative()
    return {
        "count": buckets[-1][1],
        "sum": histogram.total_seconds,
        "buckets": [[None if bound == float("inf") else bound, count] for bound, count in buckets],
    }
