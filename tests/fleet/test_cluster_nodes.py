"""Nodes that come and go with a cluster: each change is an event, and what stays is undisturbed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.base.errors import Refused
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.events import ChangeNodes, Reload, Stamped, nodes_of_clusters, prepare
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.links.link_levels import link_history
from fakedev.fleet.parts.mig import Instance
from fakedev.fleet.record import Replay, event_line, head_line, read_record
from fakedev.fleet.spec.fleet_spec import FleetSpec, Layout, PoolSpec
from fakedev.fleet.spec.limits import RecordHead
from tests.support.examples import examples
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.faulty_fleets import inject
from tests.support.fleet.fleets import BOARD, advance, make_fleet, pool_of, start
from tests.support.fleet.records import without_checksums

HEAD = RecordHead("1", 0.0)


def cluster_pool(name: str = "gpu", **more: object) -> PoolSpec:
    return PoolSpec(name, (), BOARD, 2, has_cluster_nodes=True, **more)  # type: ignore[arg-type]


def change(fleet: Fleet, *joined: str, left: tuple[str, ...] = ()) -> Stamped:
    """Nodes ``NAME`` or ``NAME@POOL`` join, others leave, and a tick passes."""
    pairs = [each.partition("@") for each in joined]
    stamped = fleet.apply(ChangeNodes(tuple((name, pool or "gpu") for name, _, pool in pairs), left))
    fleet.advance()
    return stamped


def nodes(fleet: Fleet) -> list[str]:
    return [node.name for node in fleet.roster.shown]


def test_nodes_join_and_leave_in_the_order_of_their_names() -> None:
    fleet = make_fleet(cluster_pool())
    change(fleet, "b", "a")
    change(fleet, "ab")
    assert nodes(fleet) == ["a", "ab", "b"]
    change(fleet, left=("a",))
    assert nodes(fleet) == ["ab", "b"]
    other = make_fleet(cluster_pool())
    change(other, "ab", "b")
    facts, others = ([each.labels.facts(node) for node in each.roster.shown] for each in (fleet, other))
    assert others == facts


@pytest.mark.parametrize(
    ("joined", "left", "text"),
    [
        (("a@none",), (), "no pool 'none' has nodes of the cluster (nodes: cluster); there are: gpu"),
        (("a@dgx",), (), "no pool 'dgx' has nodes"),
        (("dgx-0",), (), "node dgx-0 is in the pool dgx already"),
        (("a", "a"), (), "node a is in the pool gpu already"),
        ((), ("dgx-0",), "dgx-0 is not a node of the cluster"),
        ((), ("x",), "x is not a node of the cluster"),
    ],
)
def test_impossible_changes_change_nothing(joined: tuple[str, ...], left: tuple[str, ...], text: str) -> None:
    records: list[Stamped] = []
    fleet = make_fleet(cluster_pool(), pool_of(), record=records.append)
    with pytest.raises(Refused) as refused:
        change(fleet, *joined, left=left)
    assert text in refused.value.text
    assert records == []


def test_a_reload_keeps_the_nodes_of_the_cluster() -> None:
    """Also those that join in the tick of the reload; nodes of a pool that is gone leave."""
    fleet = make_fleet(cluster_pool(), cluster_pool("old"))
    change(fleet, "a", "o@old")
    fleet.apply(ChangeNodes((("b", "gpu"),)))
    fleet.apply(Reload(CompiledFleet(replace(fleet.spec, pools=(cluster_pool(), pool_of()))), HEAD))
    fleet.advance()
    assert nodes(fleet) == ["a", "b", "dgx-0"]
    assert fleet.source is HEAD


def test_a_preparation_for_another_fleet_is_void() -> None:
    """What was compiled in a thread is used for the very fleet that it was made from, and else made again."""
    fleet = make_fleet(cluster_pool())
    stale = prepare(fleet.compiled, ChangeNodes((("a", "gpu"),)))
    change(fleet, "b")
    fleet.apply(ChangeNodes((("a", "gpu"),), (), stale))
    fleet.advance()
    assert nodes(fleet) == ["a", "b"]
    good = prepare(fleet.compiled, ChangeNodes(left=("a",)))
    fleet.apply(ChangeNodes((), ("a",), good))
    fleet.advance()
    assert fleet.compiled is good.compiled


names = st.sampled_from(["a", "b", "c", "d"])
steps = st.lists(st.tuples(st.sets(names), st.booleans()), max_size=8)


@settings(max_examples=examples(30))
@given(steps)
def test_a_record_replays_without_a_cluster(wanted: list[tuple[set[str], bool]]) -> None:
    """Nodes, workloads on them and reloads between: the replay has the same states, tick by tick."""

    def state(of: Fleet) -> list[bytes]:
        return [of.shown.levels["device"].arrays[name].tobytes() for name in sorted(of.quantity_names())]

    spec = FleetSpec((cluster_pool(), pool_of()))
    records: list[Stamped] = []
    fleet = Fleet(spec, records.append)
    states = []
    for names_now, is_reload in wanted:
        present = {node.name for node in fleet.roster.nodes} - {"dgx-0"}
        joined = tuple((name, "gpu") for name in sorted(names_now - present))
        fleet.apply(ChangeNodes(joined, tuple(sorted(present - names_now))))
        if is_reload:
            fleet.apply(Reload(CompiledFleet(spec), HEAD))
        if names_now & present:
            start(fleet, f"{min(names_now & present)}/*", "60:5:0")
        fleet.advance()
        states.append(state(fleet))
    text = head_line(HEAD) + b"".join(map(event_line, records))
    replay, again = Replay(read_record(text, lambda _: CompiledFleet(spec))[1]), Fleet(spec)
    for expected in states:
        replay.advance(again)
        assert state(again) == expected
    assert nodes(again) == nodes(fleet)


@pytest.mark.parametrize("line", [b'"joined":[["a"]],"left":[]', b'"joined":[],"left":"a"', b'"joined":3,"left":[]'])
def test_a_wrong_line_of_a_record_is_refused(line: bytes) -> None:
    text = without_checksums(head_line(HEAD)) + b'{"tick":0,"seq":1,"event":"nodes",' + line + b"}\n"
    with pytest.raises(Refused, match=r"line 2: (joined|left): must be a list"):
        read_record(text)


@pytest.mark.deep
@settings(max_examples=examples(40), deadline=None)
@given(
    st.sampled_from(("h100", "v100-sxm2-16gb", "amd-mi300x", "l4-24gb")),
    st.lists(st.tuples(st.sets(names, max_size=2), st.sampled_from(("", "lost", "link-down"))), max_size=8),
)
def test_faults_of_nodes_that_leave(board: str, wanted: list[tuple[set[str], str]]) -> None:
    """Also of the last one: a fleet without nodes, and one that has some again, goes on. New nodes have no fault."""
    pool = PoolSpec("gpu", (), catalog_type(board), 4, has_cluster_nodes=True)
    fleet = make_fleet(pool)
    for names_now, kind in wanted:
        present = {node.name for node in fleet.roster.nodes}
        fleet.apply(ChangeNodes(tuple((name, "gpu") for name in sorted(names_now - present)),
                                tuple(sorted(present - names_now))))  # fmt: skip
        fleet.advance()
        lost = fleet.state.levels["device"].arrays.get("lost", np.zeros(fleet.roster.device_count))
        up = link_history(fleet.state.levels).up
        for node in fleet.roster.nodes:
            if node.name not in present:
                links = [link for device in node.devices for link in fleet.roster.links.of(device)]
                assert not lost[list(node.devices)].any()
                assert up is None or up[links].all()
        if kind and names_now and (kind == "lost" or fleet.roster.links.count):
            inject(fleet, kind=kind, devices=f"{min(names_now)}/1")
        advance(fleet, 2)


#: One board in MIG mode with two instances, the other one as it was.
LAYOUT = ((Instance("3g.40gb", 0), Instance("1g.10gb", 4)), None)


def test_boards_of_some_nodes_are_divided() -> None:
    """These nodes share a pool of the same name; a reload keeps them, a record has them, and what stays runs on."""
    spec = FleetSpec((PoolSpec("gpu", (), catalog_type("h100"), 2, has_cluster_nodes=True), pool_of()))
    records: list[Stamped] = []
    fleet = Fleet(spec, records.append)
    change(fleet, "a", "b", "c")
    start(fleet, "a/*", "60:5:0")
    pairs = (("b", "gpu"), ("d", "gpu"))
    fleet.apply(ChangeNodes(pairs, ("b",), layouts=((LAYOUT, ("b", "d")),)))
    fleet.advance()
    assert nodes(fleet) == ["a", "b", "c", "d", "dgx-0"]
    assert fleet.journal.last(1, ["nodes"])[-1].text == "d joined; b has other devices"
    counts = {node.name: [len(node.pool.parts_of(index)) for index in (0, 1)] for node in fleet.roster.shown[:4]}
    assert counts == {"a": [0, 0], "b": [2, 0], "c": [0, 0], "d": [2, 0]}
    assert [pool.name for pool in fleet.spec.pools] == ["gpu", "gpu", "dgx"]
    assert len(fleet.workloads.by_id) == 1
    fleet.apply(Reload(CompiledFleet(spec), HEAD))
    fleet.advance()
    assert nodes_of_clusters(fleet.spec)["d"] == ("gpu", LAYOUT)
    text = head_line(HEAD) + b"".join(map(event_line, records))
    replay, again = Replay(read_record(text, lambda _: CompiledFleet(spec))[1]), Fleet(spec)
    for _ in range(3):
        replay.advance(again)
    assert nodes_of_clusters(again.spec) == nodes_of_clusters(fleet.spec)


def test_a_reload_to_boards_that_cannot_be_divided_so() -> None:
    pool = PoolSpec("gpu", (), catalog_type("h100"), 2, has_cluster_nodes=True)
    fleet = make_fleet(pool)
    fleet.apply(ChangeNodes((("a", "gpu"),), layouts=((LAYOUT, ("a",)),)))
    fleet.advance()
    fleet.apply(Reload(CompiledFleet(FleetSpec((replace(pool, device_type=catalog_type("l4")),))), HEAD))
    fleet.advance()
    assert nodes_of_clusters(fleet.spec) == {"a": ("gpu", ())}


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ((None,), "pool gpu: the layout has 1 boards, and its nodes 2"),
        (((Instance("9g.10gb", 0),), None), "gpu/0: the board has no profile 9g.10gb"),
        ((None, (Instance("3g.40gb", 0), Instance("4g.40gb", 0))), "gpu/1: there is no place for 4g.40gb at 0"),
    ],
)
def test_impossible_layouts(layout: Layout, text: str) -> None:
    fleet = make_fleet(PoolSpec("gpu", (), catalog_type("h100"), 2, has_cluster_nodes=True))
    with pytest.raises(Refused) as refused:
        fleet.apply(ChangeNodes((("a", "gpu"),), layouts=((layout, ("a",)),)))
    assert refused.value.text == text
