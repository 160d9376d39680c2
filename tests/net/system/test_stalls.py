"""The measure of how long the reactor is held."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from fakedev.net.system.stalls import StallWatch


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
