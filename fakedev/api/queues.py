"""/api/v1/queues: the work queues, as numbers for scalers and scripts."""

from __future__ import annotations

from functools import partial
from typing import Any

from fakedev.base.histograms import Histogram
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.journal import NO_DEVICES, QUEUE, JournalEntry
from fakedev.queues.diagnosis import overdue, queue_diagnosis
from fakedev.queues.figures import MAX_CHARTED, QueueFigures, QueueHistory
from fakedev.queues.settings import BrokerSpec
from fakedev.queues.statistics import ENDS
from fakedev.web.items import Items, ItemsResource, described_key
from fakedev.web.paths import QUEUES
from fakedev.web.query import ApiCollection, ApiHistory, ApiPage, ApiResource, counted, missing
from fakedev.web.request import Request


class QueueList(ItemsResource, ApiCollection):
    """The queues.

    :param figures, history: None when the configuration has no queues.
    """

    path = QUEUES

    def __init__(self, figures: QueueFigures | None, history: QueueHistory | None) -> None:
        self._figures = figures
        self._history = history

    def item(self, name: str) -> ApiResource:
        names = self._figures.broker.queue_names if self._figures else ()
        if self._figures is None or name not in names:
            return missing("queue", name, counted(names) if names else "the configuration has no queues")
        queue = ApiPage(partial(describe_queue_now, self._figures, name))
        if self._history is not None:
            queue.putChild(b"history", ApiHistory(partial(self._history.of, name)))
        return queue

    def items(self, request: Request) -> Items[str]:
        """In the order of the configuration; each has its values when it is described."""
        figures = self._figures
        if figures is None:
            return Items((), lambda _: str, str, lambda _: str)
        described = partial(describe_queue_now, figures)
        return Items(
            figures.broker.queue_names,
            lambda _: described,
            lambda name: (name, figures.broker.snapshot(name, 0.0).state),
            partial(described_key, described),
            exists=lambda name: name in figures.broker.queue_names,
        )


def describe_queue_now(figures: QueueFigures, name: str) -> dict[str, Any]:
    """A queue: its values as on the ports, its rates and maxima with their time spans, its histograms by outcome."""
    from fakedev.queues.port import describe_queue  # noqa: PLC0415 - few services have queues

    seconds, snapshot, counted = figures.of(name)
    spec = figures.spec
    described = {
        **describe_queue(figures.broker, name, seconds),
        **overdue(figures.broker.running(name), seconds, counted.longest_run_seconds(seconds)),
        "silent-backends": figures.silent_backends,
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
    return {**described, "diagnosis": queue_diagnosis(described)}


class QueueStates:
    """Notes in the journal of a fleet when queues are paused, drained, or open again.

    :param figures: None for none.
    """

    def __init__(self, fleet: Fleet, figures: QueueFigures | None) -> None:
        self._fleet = fleet
        self._figures = figures
        self._states: dict[str, str] = {}

    def note(self) -> None:
        """Compare the states with the states at the last call."""
        if self._figures is None:
            return
        state = self._fleet.state
        for name in self._figures.broker.queue_names[:MAX_CHARTED]:
            now = self._figures.broker.snapshot(name, 0.0).state
            if self._states.setdefault(name, now) != now:
                self._states[name] = now
                entry = JournalEntry(state.tick, state.seconds, QUEUE, name, "", f"the queue is {now}")
                self._fleet.journal.note([entry], [NO_DEVICES])


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
