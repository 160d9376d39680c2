"""A fleet that is reset: nothing of its past is left, and what comes after the reset stays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.door import fault_id_of
from fakedev.sim.events import Event, InjectFault, Reload, Reset, Stamped
from fakedev.sim.fleet import Fleet
from fakedev.sim.record import Replay, event_line, head_line, read_record
from fakedev.spec.errors import Refused
from fakedev.spec.fault import FaultSpec
from fakedev.spec.fleet import FleetSpec
from fakedev.spec.limits import Limits
from fakedev.spec.record_head import RecordHead
from tests.support.examples import examples
from tests.support.faulty_fleets import boards_of, inject
from tests.support.fleets import advance, ended, loads, make_fleet, start, workload
from tests.support.histories import Scene, fleet_of, scenes, shown_of

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


@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_nothing_of_the_past_is_left(data: st.DataObject) -> None:
    """After a reset a fleet shows, to the bit, what a fleet of the same age without a past shows."""
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


def test_it_begins_as_a_new_fleet_begins() -> None:
    """Devices are as cold, and counters as small, as those of a new fleet; only the clock goes on."""
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
    """Each workload that runs, or is about to start, gets its verdict; those of the configuration start again."""
    fleet = make_fleet(base=(workload("card1", "70:0:0", name="base"),))
    first = start(fleet)
    advance(fleet, 3)
    waiting = start(fleet, "card2")
    fleet.apply(Reset("a test begins"))
    assert ended(fleet) == [(4, each, 0, "a test begins") for each in ("base-base", first, waiting)]
    assert list(fleet.workloads.by_id) == ["base-base"]
    assert loads(fleet) == [0, 70, 0, 0]


def test_what_comes_after_it_stays() -> None:
    """A workload and a fault that come after the reset, in the same tick, are not ended by it."""
    fleet = make_fleet(boards_of("h100", devices=4))
    start(fleet, "card0", "90:0:0")
    inject(fleet, kind="lost", devices="card1")
    advance(fleet, 3)
    fleet.apply(Reset())
    later = start(fleet, "card2", "40:0:0")
    fault = inject(fleet, kind="lost", devices="card3")
    assert [each for _, each, _, _ in ended(fleet)] == ["w1"]
    assert list(fleet.workloads.by_id) == [later]
    assert list(fleet.faults.by_id) == [fault]
    assert loads(fleet)[:4] == [0, 0, 40, 0]
    assert (fleet.state.levels["device"].arrays["lost"] > 0).tolist()[:4] == [False, False, False, True]


def test_faults_of_the_configuration_begin_again() -> None:
    """They have the same ids as at the start; a cleared one is back."""
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
    """A reset before or after a reload: the fleet begins again with the new configuration."""
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
    """Room for what the configuration starts again is kept from others that come in between."""
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


def test_a_record_with_a_reset() -> None:
    """A reset is one line of the record, and a replay of it gives the same state to the bit."""
    kept: list[Stamped] = []
    spec = FleetSpec((boards_of("h100"),), seed=3, base=(workload("card1", "70:9:2", name="base"),))
    fleet = Fleet(spec, kept.append)
    start(fleet, "card0", "80:5:3")
    advance(fleet, 5)
    fleet.apply(Reset())
    inject(fleet, kind="fan", devices="card1")
    advance(fleet, 5)
    lines = head_line(HEAD) + b"".join(map(event_line, kept))
    assert lines.count(b'"event":"reset"') == 1
    _, events = read_record(lines)
    again, replay = Fleet(spec), Replay(events)
    for _ in range(10):
        replay.advance(again)
    names = [node.name for node in fleet.roster.nodes]
    assert shown_of(again, names) == shown_of(fleet, names)


def test_the_journal_has_it() -> None:
    """The journal keeps what was before, and says what the reset was."""
    fleet = make_fleet(boards_of("h100", devices=4))
    fleet.apply(InjectFault(FaultSpec("lost", ("card0",))))
    advance(fleet, 2)
    fleet.apply(Reset("a test begins"))
    advance(fleet, 2)
    entries: list[Any] = fleet.journal.last(100)
    assert [(each.kind, each.text) for each in entries][-1] == ("reset", "a test begins")
    assert fault_id_of(1) in [each.scope for each in entries]
    assert fleet.journal.since("lost", 0) == 2
