"""A fleet that is reset: nothing of its past is left, and what comes after the reset stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.base.errors import Refused
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.events import Event, Reload, Reset
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fleet_spec import FaultSpec, FleetSpec
from fakedev.fleet.spec.limits import Limits, RecordHead
from tests.support.examples import examples
from tests.support.fleet.faulty_fleets import boards_of, inject
from tests.support.fleet.fleets import advance, ended, loads, make_fleet, start, workload
from tests.support.fleet.histories import Scene, fleet_of, scenes, shown_of

HEAD = RecordHead("1", 0.0)
TICKS = 6


def lived(spec: FleetSpec, some: list[Scene], after: tuple[Event, ...], *, is_quiet: bool) -> Fleet:
    """A fleet with a past, or with a quiet one, that is reset, and goes on.

    :param after: events in the same tick, after the reset.
    """
    fleet = Fleet(spec)
    for tick in range(TICKS):
        for scene in some if not is_quiet else ():
            for event in scene.events[tick]:
                fleet.apply(event)
        fleet.advance()
    fleet.apply(Reset())
    for event in after:
        fleet.apply(event)
    return fleet


@pytest.mark.slow
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_nothing_of_the_past_is_left(data: st.DataObject) -> None:
    some = [data.draw(scenes("one", 2 * TICKS)), data.draw(scenes("two", 2 * TICKS))]
    spec = fleet_of(some, seed=7)
    names = [node.name for scene in some for node in scene.pool.nodes]
    after = some[0].events[TICKS] + some[1].events[TICKS]
    fleet, other = (lived(spec, some, after, is_quiet=each) for each in (False, True))
    for tick in range(TICKS, 2 * TICKS):
        fleet.advance()
        other.advance()
        assert shown_of(fleet, names) == shown_of(other, names), tick
        assert fleet.limits() == other.limits()


@pytest.mark.slow
def test_it_begins_as_a_new_fleet_begins() -> None:
    base = (workload("card1", "70:0:0", name="base"),)
    new = make_fleet(boards_of("h100"), base=base)
    used = make_fleet(boards_of("h100"), base=base)
    start(used, "card0", "100:0:0")
    inject(used, kind="fan", devices="card0")
    advance(used, 300)
    assert used.temperature_celsius[0] > new.temperature_celsius[0] + 20
    used.apply(Reset())
    advance(used, 10)
    advance(new, 10)
    assert loads(used) == loads(new)
    for name in ("temperature_celsius", "energy_joules", "memory_used_bytes", "pcie_tx_bytes"):
        assert getattr(used, name) == pytest.approx(getattr(new, name), rel=0.02), name
    assert used.state.tick == 310
    assert used.state.levels["device"].arrays["created_seconds"].tolist() == [300.0] * 2


def test_workloads_end_with_the_reason() -> None:
    """Workloads that run, or are about to start, get a verdict; those of the configuration start again."""
    fleet = make_fleet(base=(workload("card1", "70:0:0", name="base"),))
    first = start(fleet)
    fault = inject(fleet, kind="lost", devices="card0")
    advance(fleet, 3)
    waiting = start(fleet, "card2")
    fleet.apply(Reset("a test begins"))
    later, after = start(fleet, "card2", "40:0:0"), inject(fleet, kind="lost", devices="card3")
    assert ended(fleet) == [(4, each, 0, "a test begins") for each in ("base-base", waiting)]
    assert (list(fleet.workloads.by_id), list(fleet.faults.by_id)) == (["base-base", later], [after])
    assert loads(fleet) == [0, 70, 40, 0]
    assert fleet.lost.tolist() == [0, 0, 0, 1]
    entries: list[Any] = fleet.journal.last(100)
    assert ("reset", "a test begins") in [(entry.kind, entry.text) for entry in entries]
    assert {first, fault} <= {entry.scope for entry in entries}


def test_faults_of_the_configuration_begin_again() -> None:
    spec = FaultSpec("lost", ("card0",))
    fleet = make_fleet(boards_of("h100"), faults=(spec,))
    advance(fleet, 2)
    before = list(fleet.faults.by_id)
    inject(fleet, kind="hang", devices="card1")
    for fault_id in before:
        fleet.faults.clear_if_there(fault_id)
    advance(fleet, 2)
    fleet.apply(Reset())
    assert not fleet.faults.by_id
    fleet.advance()
    assert list(fleet.faults.by_id) == before


@pytest.mark.parametrize("first", ["reload", "reset"])
def test_a_reload_in_the_same_tick(first: str) -> None:
    fleet = make_fleet(base=(workload("card1", "70:0:0", name="base"),))
    start(fleet)
    advance(fleet, 3)
    following = replace(fleet.spec, base=(workload("card2", "30:0:0", name="new"), *fleet.spec.base))
    both = [Reload(CompiledFleet(following), HEAD), Reset()]
    for event in both if first == "reload" else reversed(both):
        fleet.apply(event)
    added = start(fleet, "card3", "20:0:0")
    fleet.advance()
    assert loads(fleet) == [0, 70, 30, 20]
    assert sorted(fleet.workloads.by_id) == ["base-base", "base-new", added]
    assert fleet.state.levels["device"].arrays["created_seconds"].tolist() == [3.0] * 4


def test_limits_hold() -> None:
    limits = Limits(workloads=3)
    fleet = make_fleet(base=tuple(workload(f"card{each}", "9:0:0") for each in (0, 1)), limits=limits)
    advance(fleet, 2)
    fleet.apply(Reset())
    for _ in range(3):
        try:
            start(fleet, "card3")
        except Refused as refusal:
            assert refusal.code == "full"
    fleet.advance()
    assert len(fleet.workloads.by_id) <= 3
    start(fleet, "card3")
