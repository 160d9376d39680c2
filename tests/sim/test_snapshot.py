"""A fleet as bytes: what is read goes on, to the bit, as what was written would have."""

from __future__ import annotations

import io
import os
import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.events import Reload, Reset, Stamped, StartWorkload
from fakedev.sim.fleet import Fleet
from fakedev.sim.journal_entries import JournalEntry
from fakedev.sim.snapshot import CannotRead, fleet_from_bytes, fleet_to_bytes
from fakedev.spec.fleet import FleetSpec
from fakedev.spec.record_head import RecordHead
from tests.support.examples import examples
from tests.support.faulty_fleets import boards_of, inject
from tests.support.fleets import advance, loads, make_fleet, pool_of, start, workload
from tests.support.histories import fleet_of, scenes, shown_of

TICKS = 12


def again(fleet: Fleet) -> Fleet:
    """The fleet, written and read."""
    return fleet_from_bytes(fleet_to_bytes(fleet))


@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_it_goes_on(data: st.DataObject) -> None:
    """Pages, states, verdicts, limits and the journal of all later ticks are the same, however often it is written."""
    some = [data.draw(scenes("one", TICKS)), data.draw(scenes("two", TICKS))]
    spec = fleet_of(some, seed=7)
    names = [node.name for scene in some for node in scene.pool.nodes]
    written = data.draw(st.sets(st.integers(0, TICKS - 1), min_size=1))
    reset = data.draw(st.sampled_from((None, None, 3, 7)))
    fleet, other = Fleet(spec), Fleet(spec)
    for tick in range(TICKS):
        if tick in written:
            other = again(other)
            assert shown_of(fleet, names) == shown_of(other, names)
        ended = []
        for each in (fleet, other):
            for scene in some:
                for event in scene.events[tick]:
                    each.apply(event)
            if tick == reset:
                each.apply(Reset())
            ended.append([(verdict.workload_id, verdict.code, verdict.text) for verdict in each.advance()])
        assert ended[0] == ended[1]
        assert shown_of(fleet, names) == shown_of(other, names), tick
        assert fleet.limits() == other.limits()
        assert fleet.journal.last(1000) == other.journal.last(1000)


def test_between_events() -> None:
    """Events that wait for the next tick are kept, too: workloads that start or were stopped, faults, a reset."""
    fleet = make_fleet(boards_of("h100", devices=4), base=(workload("card1", "70:0:0", name="base"),))
    stopped = start(fleet, "card0", "30:0:0")
    advance(fleet, 3)
    fleet.apply(Reset())
    start(fleet, "card2", "40:0:0")
    inject(fleet, kind="lost", devices="card3")
    other = again(fleet)
    for each in (fleet, other):
        assert stopped in [verdict.workload_id for verdict in each.advance()]
        assert loads(each) == [0, 70, 40, 0]
    assert fleet.journal.last(100) == other.journal.last(100)


def test_after_a_reload() -> None:
    """The fleet that is read has the nodes and the configuration of the last reload, and can be reloaded."""
    fleet = make_fleet(pool_of(nodes=2), base=(workload("dgx-*/card1", "70:0:0", name="base"),))
    start(fleet, "dgx-1/card0", "30:0:0")
    advance(fleet, 2)
    source = RecordHead("1", 0.0, "/etc/new.yaml")
    following = replace(fleet.spec, pools=(pool_of(nodes=3),))
    fleet.apply(Reload(CompiledFleet(following), source))
    advance(fleet, 2)
    other = again(fleet)
    assert other.source == source
    for each in (fleet, other):
        each.apply(Reload(CompiledFleet(replace(fleet.spec, pools=(pool_of(nodes=1),))), source))
        advance(each, 2)
        assert loads(each) == [0, 70, 0, 0]


def test_peers() -> None:
    """Limits of a peer hold over its workloads; the peer itself is gone."""
    fleet = make_fleet()
    peer = object()
    fleet.apply(start_event("card0"), peer)
    fleet.apply(start_event("card1"), peer)
    fleet.advance()
    other = again(fleet)
    assert other.limits() == fleet.limits()
    peers = {each.peer for each in other.workloads.by_id.values()}
    assert len(peers) == 1
    assert peers != {peer}


def start_event(devices: str) -> StartWorkload:
    """A workload of a peer."""
    return StartWorkload(workload(devices))


def test_who_gets_events() -> None:
    """The record and the journal get what comes after it was read, and nothing twice."""
    fleet = make_fleet()
    start(fleet)
    events: list[Stamped] = []
    entries: list[JournalEntry] = []
    other = fleet_from_bytes(fleet_to_bytes(fleet), events.append, entries.extend)
    start(other, "card1")
    assert [each.sequence for each in events] == [2]
    assert [each.kind for each in entries] == ["start"]


def test_what_it_does_not_have() -> None:
    """What the specification decides is not written: a thousand idle boards are some hundred bytes each."""
    small, large = (len(fleet_to_bytes(make_fleet(boards_of("h100", devices=each)))) for each in (2, 1002))
    assert (large - small) / 1000 < 2500


def test_without_nodes() -> None:
    """A fleet whose cluster has no nodes yet is a fleet, too."""
    fleet = make_fleet(replace(pool_of(), nodes=(), has_cluster_nodes=True))
    advance(fleet, 2)
    assert again(fleet).state.tick == 2


class Evil:
    """Runs a program when it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo evil",)


@pytest.mark.parametrize("what", [Evil(), {"no": "fleet"}, 7])
def test_other_bytes(what: object) -> None:
    """Nothing else is read, and nothing is run."""
    spec = FleetSpec((pool_of(),))
    for content in (what, (spec, what)):
        buffer = io.BytesIO()
        for each in content if isinstance(content, tuple) else (content,):
            pickle.Pickler(buffer, 5).dump(each)
        with pytest.raises(CannotRead):
            fleet_from_bytes(buffer.getvalue())


def test_cut_bytes() -> None:
    """Bytes that end too early are refused, wherever they end."""
    content = fleet_to_bytes(make_fleet())
    for end in range(0, len(content) - 1, 97):
        with pytest.raises(CannotRead):
            fleet_from_bytes(content[:end])
