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

from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.events import Reload, Reset, Stamped, StartWorkload
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.journal import JournalEntry
from fakedev.fleet.snapshot import CannotRead, fleet_from_bytes, fleet_to_bytes
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.spec.limits import RecordHead
from tests.support.examples import examples
from tests.support.fleet.faulty_fleets import boards_of, inject
from tests.support.fleet.fleets import advance, loads, make_fleet, pool_of, start, workload
from tests.support.fleet.histories import fleet_of, scenes, shown_of

TICKS = 12


def again(fleet: Fleet) -> Fleet:
    return fleet_from_bytes(fleet_to_bytes(fleet))


@pytest.mark.slow
@settings(max_examples=examples(30), deadline=None)
@given(data=st.data())
def test_it_goes_on(data: st.DataObject) -> None:
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
    """The fleet that is read has the nodes and the configuration of the last reload, also no nodes, and can reload."""
    fleet = make_fleet(pool_of(nodes=2), base=(workload("dgx-*/card1", "70:0:0", name="base"),))
    start(fleet, "dgx-1/card0", "30:0:0")
    advance(fleet, 2)
    source = RecordHead("1", 0.0, "/etc/new.yaml")
    fleet.apply(Reload(CompiledFleet(replace(fleet.spec, pools=(pool_of(nodes=3),))), source))
    advance(fleet, 2)
    other = again(fleet)
    assert other.source == source
    for each in (fleet, other):
        each.apply(Reload(CompiledFleet(replace(fleet.spec, pools=(pool_of(nodes=1),))), source))
        advance(each, 2)
        assert loads(each) == [0, 70, 0, 0]
    empty = make_fleet(replace(pool_of(), nodes=(), has_cluster_nodes=True))
    advance(empty, 2)
    assert again(empty).state.tick == 2


def test_peers() -> None:
    """Limits of a peer hold over its workloads; the peer itself is gone."""
    fleet = make_fleet()
    peer = object()
    for card in ("card0", "card1"):
        fleet.apply(StartWorkload(workload(card)), peer)
    fleet.advance()
    other = again(fleet)
    assert other.limits() == fleet.limits()
    peers = {each.peer for each in other.workloads.by_id.values()}
    assert len(peers) == 1
    assert peers != {peer}


def test_who_gets_events() -> None:
    fleet = make_fleet()
    start(fleet)
    events: list[Stamped] = []
    entries: list[JournalEntry] = []
    other = fleet_from_bytes(fleet_to_bytes(fleet), events.append, entries.extend)
    start(other, "card1")
    assert [event.sequence for event in events] == [2]
    assert [entry.kind for entry in entries] == ["start"]


def test_what_it_does_not_have() -> None:
    """What the specification decides is not written: a thousand idle boards are some hundred bytes each."""
    small, large = (len(fleet_to_bytes(make_fleet(boards_of("h100", devices=each)))) for each in (2, 1002))
    assert (large - small) / 1000 < 2500


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo evil",)


@pytest.mark.parametrize("what", [Evil(), {"no": "fleet"}, 7])
def test_other_bytes(what: object) -> None:
    spec = FleetSpec((pool_of(),))
    for content in (what, (spec, what)):
        buffer = io.BytesIO()
        for each in content if isinstance(content, tuple) else (content,):
            pickle.Pickler(buffer, 5).dump(each)
        with pytest.raises(CannotRead):
            fleet_from_bytes(buffer.getvalue())


@pytest.mark.slow
def test_cut_bytes() -> None:
    content = fleet_to_bytes(make_fleet())
    for end in range(0, len(content) - 1, 97):
        with pytest.raises(CannotRead):
            fleet_from_bytes(content[:end])
