"""Descriptions of many things at one moment, though they are made over several ticks."""

from __future__ import annotations

from fakedev.net.fleet.describe import device_describer, workload_describer
from tests.support.faulty_fleets import busy
from tests.support.fleets import advance, start, stop


def test_devices_at_one_tick() -> None:
    """Quantities, owners and labels of the tick in which it was begun, also after others have passed."""
    fleet = busy(5)
    owner = start(fleet, "dgx-0/1", "50:5:0", pod="before", namespace="ml")
    advance(fleet, 1)
    every = list(range(fleet.roster.device_count))
    expected = list(map(device_describer(fleet, every), every))
    later = device_describer(fleet, every)
    stop(fleet, owner)
    start(fleet, "dgx-0/2", "90:0:0", pod="after")
    advance(fleet, 3)
    assert list(map(later, every)) == expected
    assert list(map(device_describer(fleet, every), every)) != expected
    assert expected[1]["facts"]["pod"] == "before"
    node = fleet.roster.nodes[0]
    now = [device_describer(fleet, [device])(device) for device in node.devices]
    assert [each["facts"] for each in now] == fleet.facts(node)


def test_workloads_at_one_tick() -> None:
    """Ages and loads of the tick in which it was begun; those that have ended meanwhile are described too."""
    fleet = busy(5)
    start(fleet, "dgx-0/1", "50:3:0", ttl="3s")
    advance(fleet, 1)
    every = list(fleet.workloads.by_id.values())
    later, expected = workload_describer(fleet, every), list(map(workload_describer(fleet, every), every))
    advance(fleet, 4)
    assert len(fleet.workloads.by_id) < len(every)
    assert list(map(later, every)) == expected
