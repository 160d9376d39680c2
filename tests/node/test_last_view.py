"""The health of devices while the service is gone, with a given clock."""

from __future__ import annotations

from dataclasses import replace

from fakedev.node.agent import KEEP_SECONDS, LastView
from tests.support.kube.node_service import GPU, VIEW, struck


def test_nothing_is_known_at_first() -> None:
    last = LastView()
    assert last.at(0.0) is None
    assert last.at(1000.0) is None
    assert not last.is_stale(1000.0)


def test_devices_keep_their_health_for_a_while() -> None:
    """For 60 s; then all are unhealthy, with the reasons that were known."""
    last = LastView()
    view = struck(VIEW, 1)
    last.changed(view, 100.0)
    assert last.at(100.0 + KEEP_SECONDS - 0.001) is view
    lost = last.at(100.0 + KEEP_SECONDS)
    assert lost is not None
    reasons = [slot.unhealthy for slot in lost.resources[GPU]]
    assert reasons == ["the fakedev service is gone", "XID 79"] + ["the fakedev service is gone"] * 2
    assert [slot.id for slot in lost.resources[GPU]] == [slot.id for slot in VIEW.resources[GPU]]
    assert last.at(100.0 + 2 * KEEP_SECONDS) is lost


def test_every_line_of_the_service_counts() -> None:
    last = LastView()
    last.changed(VIEW, 0.0)
    last.heard(50.0)
    assert last.at(50.0 + KEEP_SECONDS - 0.001) is VIEW
    assert last.is_stale(50.0 + KEEP_SECONDS)


def test_only_a_view_makes_them_healthy_again() -> None:
    """A line of another kind does not: the faults of the time between are not known."""
    last = LastView()
    last.changed(VIEW, 0.0)
    last.heard(KEEP_SECONDS)
    assert last.is_stale(KEEP_SECONDS + 1)
    later = struck(VIEW, 0)
    last.changed(later, KEEP_SECONDS + 2)
    assert last.at(KEEP_SECONDS + 2) is later


def test_a_plugin_that_is_down_stays_down() -> None:
    last = LastView()
    last.changed(replace(VIEW, is_plugin_down=True), 0.0)
    lost = last.at(KEEP_SECONDS)
    assert lost is not None
    assert lost.is_plugin_down
