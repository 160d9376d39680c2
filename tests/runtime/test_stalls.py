"""The measure of how long the reactor is held."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from fakedev.runtime.memory import StallWatch


def test_the_longest_stall() -> None:
    """A timer in time counts as no delay, a late one as how late it was; after the stop nothing is left."""
    clock = Clock()
    watch = StallWatch(clock)
    watch.startService()
    assert watch.longest_seconds() == 0
    clock.pump([0.1, 0.1 + 0.7, 0.1 + 0.03, 0.1])
    assert watch.longest_seconds() == pytest.approx(0.7)
    watch.stopService()
    assert clock.getDelayedCalls() == []


def test_a_stall_is_seen_for_a_minute_at_least_and_two_at_most() -> None:
    """However often somebody asks: two scrapers take nothing away from each other."""
    clock = Clock()
    watch = StallWatch(clock)
    watch.startService()
    clock.pump([0.1] * 590)
    clock.advance(0.1 + 0.5)
    seen = []
    for _ in range(130):
        clock.pump([0.1] * 10)
        seen.append(watch.longest_seconds() > 0.4)
    assert all(seen[:59])
    assert not any(seen[120:])
    watch.stopService()
