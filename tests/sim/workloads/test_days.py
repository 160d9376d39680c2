"""Loads that follow the time of day, the same for all replicas of a service."""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.sim.fleet import Fleet
from tests.support.fleets import advance, make_fleet, pool_of, start

HOUR = 3600.0
DAY = 24 * HOUR


def day_of(fleet: Fleet, ticks: int) -> np.ndarray:
    """The usage of all devices, tick by tick, in percent: shape (ticks, devices)."""
    advance(fleet, 1)
    return np.array([100 * usage for usage in [fleet.usage_ratio, *(_next(fleet) for _ in range(ticks - 1))]])


def _next(fleet: Fleet) -> np.ndarray:
    fleet.advance()
    return fleet.usage_ratio


def hours(profile: str = "daily(10,90)", epoch: float = 0.0, devices: str = "card0", **fields: object) -> np.ndarray:
    """The mean load in each hour of a day that begins at ``epoch``."""
    fleet = make_fleet(pool_of(), tick_seconds=HOUR, epoch_seconds=epoch)
    start(fleet, devices, profile, **fields)
    return day_of(fleet, 24)[:, 0]


def test_it_is_high_around_its_peak_and_low_twelve_hours_later() -> None:
    """At 15:00 UTC unless another time is given, within its bounds."""
    for peak, found in ((15, hours()), (9, hours("daily(10,90,9h)"))):
        assert abs(int(found.argmax()) - peak) <= 1
        assert (int(found.argmin()) - peak) % 24 == pytest.approx(12, abs=2)
        assert 10 <= found.min() < 25
        assert 75 < found.max() <= 90


def test_the_epoch_decides_the_hour() -> None:
    """A fleet that begins at noon begins with the load of noon."""
    from_midnight, from_noon = hours(), hours(epoch=DAY / 2)
    assert from_noon[:12] == pytest.approx(from_midnight[12:], abs=6)
    assert from_noon[0] > from_midnight[0] + 20


def test_replicas_of_a_service_share_their_demand() -> None:
    """They start at different times and are on different nodes; another service has other waves, but the same day."""
    fleet = make_fleet(pool_of(nodes=3, devices_per_node=1), tick_seconds=60.0)
    start(fleet, "dgx-0/0", "daily(10,90)", service="chat", name="a")
    advance(fleet, 7)
    start(fleet, "dgx-1/0", "daily(10,90)", service="chat", name="b")
    start(fleet, "dgx-2/0", "daily(10,90)", name="c")
    first, second, other = day_of(fleet, 1440).T
    assert second == pytest.approx(first, abs=1e-5)
    assert np.abs(other - first).max() > 2
    assert np.corrcoef(first, other)[0, 1] > 0.95


def test_a_balancer_gives_each_replica_its_noise() -> None:
    """Beside the common demand: the fluctuation of each device."""
    fleet = make_fleet(pool_of(devices_per_node=2))
    start(fleet, "all", "daily(10,90):10", service="chat")
    one, other = day_of(fleet, 600).T
    assert 1 < np.std(one - other) < 10


def test_names_decide_not_ids() -> None:
    """Workloads of the same name are replicas of one service."""
    fleet = make_fleet(pool_of(devices_per_node=2), tick_seconds=60.0)
    start(fleet, "card0", "daily(10,90)", name="chat")
    start(fleet, "card1", "daily(10,90)", name="chat")
    one, other = day_of(fleet, 100).T
    assert other.tolist() == one.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [pytest.param(1.0, marks=pytest.mark.long), 10.0, 60.0, 977.0])
def test_the_mean_does_not_depend_on_the_length_of_the_tick(seconds: float) -> None:
    """Over some hours, after a beginning of another load."""
    whole = 977.0 * 60
    totals = []
    for step in (seconds, whole):
        fleet = make_fleet(pool_of(), tick_seconds=step, epoch_seconds=5 * HOUR)
        start(fleet, "card0", "5:0:100:once,daily(10,90)")
        totals.append(day_of(fleet, round(whole / step))[:, 0].mean())
    assert totals[0] == pytest.approx(totals[1], abs=1e-4)
