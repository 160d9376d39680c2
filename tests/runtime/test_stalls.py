"""The measure of how long the reactor is held."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from twisted.internet.task import Clock

from fakedev.runtime.memory import CollectorPauses, StallWatch


def test_delays() -> None:
    """A timer in time counts as no delay, a late one as how late it was; after the stop nothing is left."""
    clock = Clock()
    watch = StallWatch(clock)
    watch.startService()
    clock.pump([0.1, 0.1, 0.1 + 0.03, 0.1, 0.1 + 0.7])
    found = {bound: count for bound, count in watch.delays.ranges() if count}
    assert found == {0.001: 3, 0.05: 1, 1.0: 1}
    assert watch.delays.total_seconds == pytest.approx(0.73)
    watch.stopService()
    assert clock.getDelayedCalls() == []


@pytest.fixture
def pauses() -> Iterator[CollectorPauses]:
    """While it runs each collection takes a quarter of a second by its clock."""
    clock = Clock()

    def seconds() -> float:
        clock.advance(0.25)
        return clock.seconds()

    watch = CollectorPauses(seconds)
    watch.startService()
    was_enabled = gc.isenabled()
    gc.disable()
    yield watch
    if was_enabled:
        gc.enable()
    if watch.running:
        watch.stopService()


def test_collections_are_measured_by_generation(pauses: CollectorPauses) -> None:
    gc.collect(0)
    gc.collect(2)
    gc.collect(2)
    pauses.stopService()
    gc.collect(1)
    assert [sum(each.counts) for each in pauses.by_generation] == [1, 0, 2]
    assert [each.total_seconds for each in pauses.by_generation] == [0.25, 0, 0.5]


def test_a_collection_that_had_begun(pauses: CollectorPauses) -> None:
    """Its end alone says nothing about its time."""
    pauses.collects("stop", {"generation": 2})
    assert not any(sum(each.counts) for each in pauses.by_generation)
