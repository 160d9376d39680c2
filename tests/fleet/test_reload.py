"""A fleet that reloads: which workloads and devices continue, begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.base.errors import Refused
from fakedev.fleet.events import ClearFaults
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.record import event_line, head_line, read_record
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.fleet.spec.fault_kinds import KINDS
from fakedev.fleet.spec.fleet_spec import FaultSpec, NodeSpec, PoolSpec
from fakedev.fleet.spec.limits import Limits, RecordHead
from tests.support.examples import examples
from tests.support.fleet.board_checks import changed
from tests.support.fleet.faulty_fleets import boards_of, inject
from tests.support.fleet.fleets import (
    BOARD,
    WorkloadSeries,
    advance,
    ended,
    labels_of,
    loads,
    make_fleet,
    reload,
    start,
    stop,
    workload,
)

SOURCE = RecordHead("1", 0.0)
OTHER = replace(BOARD, name="other")


def pool(name: str, nodes: Sequence[str], devices: int = 2, device_type: DeviceType = BOARD, **more: Any) -> PoolSpec:
    return PoolSpec(name, tuple(NodeSpec(node) for node in nodes), device_type, devices, **more)


def shown(fleet: Fleet, pool_name: str = "") -> dict[str, list[str]]:
    """All quantities of each device as exporters show them, by its name; of one pool only, when it is named."""
    level = fleet.shown.levels["device"]
    found = {}
    for node in fleet.roster.nodes:
        if pool_name in ("", node.pool.name):
            for place in node.devices:
                values = [(each, level.arrays[each][place], level.has(each, place)) for each in sorted(level.arrays)]
                found[fleet.roster.unit_name(place)] = [f"{name} {value!r} {has}" for name, value, has in values]
    return found


class TestDevice:
    def test_new_devices_begin(self) -> None:
        """In the next tick: their counters begin at 0, and they were created now."""
        fleet = make_fleet(pool("p", ["a"]), epoch_seconds=1000.0)
        advance(fleet, 10)
        before = fleet.state
        reload(fleet, pool("p", ["a", "b"]))
        assert (fleet.state is before, fleet.roster.device_count) == (True, 2)
        fleet.advance()
        assert fleet.energy_joules.tolist() == [550.0, 550.0, 50.0, 50.0]
        assert fleet.created_seconds.tolist() == [1000.0, 1000.0, 1010.0, 1010.0]
        reload(fleet, pool("p", ["b", "a"], 1))
        fleet.advance()
        assert fleet.created_seconds.tolist() == [1010.0, 1000.0]

    def test_another_pool_type_or_index_is_another_device(self) -> None:
        for pools in ([pool("q", ["a"])], [pool("p", ["a"], device_type=OTHER)], [pool("p", ["b"])]):
            fleet = make_fleet(pool("p", ["a"]))
            advance(fleet, 4)
            reload(fleet, *pools)
            fleet.advance()
            assert fleet.energy_joules.tolist() == [50.0, 50.0], pools

    def test_a_type_whose_numbers_change(self) -> None:
        fleet = make_fleet(pool("p", ["a"]))
        advance(fleet, 2)
        ranges = dict(BOARD.ranges)
        ranges["power_watts"] = replace(ranges["power_watts"], low=80.0)
        reload(fleet, pool("p", ["a"], device_type=replace(BOARD, ranges=ranges)))
        fleet.advance()
        assert (fleet.power_watts[0], fleet.energy_joules[0]) == (80.0, 180.0)

    def test_conditions_stay(self) -> None:
        fleet = make_fleet(pool("p", ["a", "b"]))
        relations = fleet.compiled.relations
        lost = changed(relations.conditions, "lost", 4, np.array([3]), 1.0)
        relations.change_conditions(lost)
        advance(fleet, 2)
        reload(fleet, pool("p", ["b"]))
        fleet.advance()
        assert fleet.lost.tolist() == [0.0, 1.0]
        assert fleet.energy_joules.tolist() == [150.0, 0.0]

    def test_what_cannot_be(self) -> None:
        fleet = make_fleet(pool("p", ["a"]))
        for change in ({"seed": 2}, {"tick_seconds": 2.0}, {"epoch_seconds": 5.0}):
            with pytest.raises(Refused, match="cannot be changed by a reload"):
                reload(fleet, pool("p", ["a"]), **change)
        with pytest.raises(Refused, match="no node 'c'"):
            reload(fleet, pool("p", ["a", "b"]), base=(workload("c/0"),))
        fleet.advance()
        assert fleet.roster.device_count == 2


class TestWorkload:
    def test_lost_devices(self) -> None:
        fleet = make_fleet(pool("p", ["a", "b"]))
        start(fleet, "*/*")
        stays = start(fleet, "a/1", "60:0:0")
        gone = start(fleet, "b/1", "10:0:0", pod="x")
        fleet.advance()
        reload(fleet, pool("p", ["a"]))
        text = "Device b/{} is no longer in the fleet, terminated"
        assert ended(fleet) == [(2, "w1", 1, text.format(0)), (2, gone, 1, text.format(1))]
        assert (list(fleet.workloads.by_id), loads(fleet)) == ([stays], [0.0, 60.0])
        stop(fleet, stays)
        assert ended(fleet) == [(3, stays, 0, "stopped")]

    def test_what_came_and_went_in_the_same_tick(self) -> None:
        """Events before the reload count by the fleet that was."""
        fleet = make_fleet(pool("p", ["a", "b"]))
        early = start(fleet, "b/0")
        fleet.advance()
        stop(fleet, early)
        late = start(fleet, "b/1")
        reload(fleet, pool("p", ["c", "b"], 1))
        after = start(fleet, "b/0", "30:0:0")
        assert ended(fleet) == [
            (2, early, 0, "stopped"),
            (2, late, 1, "Device b/1 is no longer in the fleet, terminated"),
        ]
        assert (loads(fleet), list(fleet.workloads.by_id)) == ([0.0, 30.0], [after])

    def test_base_workloads(self) -> None:
        """Those that are the same live on, on the devices of their words; others end and begin; none runs again."""
        every, old, new = workload("all", "10:0:0"), workload("a/0", "20:0:0"), workload("b/0", "30:0:0")
        over = workload("a/0", "50:0:1")
        fleet = make_fleet(pool("p", ["a"]), base=(every, old, over))
        advance(fleet, 3)
        reload(fleet, pool("p", ["b", "a"]), base=(new, every, over))
        assert ended(fleet) == [(4, "base-work-2", 0, "no longer in the configuration")]
        assert loads(fleet) == [40.0, 10.0, 10.0, 10.0]
        runs = {each.workload_id: (each.start_seconds, each.devices.tolist()) for each in fleet.workloads.running()}
        assert runs == {"base-work": (0.0, [0, 1, 2, 3]), "base-work-2": (3.0, [0])}
        reload(fleet, pool("p", ["a"]), base=(every,))
        assert ended(fleet) == [(5, "base-work-2", 0, "no longer in the configuration")]
        assert loads(fleet) == [10.0, 10.0]

    def test_room(self) -> None:
        """A reload with more workloads than there may be is refused; room for those that come is kept until they do."""
        fleet = make_fleet(pool("p", ["a"]), base=(workload("a/0"),), limits=Limits(workloads=3))
        fleet.advance()
        running = start(fleet, "a/1")
        with pytest.raises(Refused, match=r"limits\.workloads is 3: 2 more are needed, and 1 remain"):
            reload(fleet, pool("p", ["a"]), base=(workload("a/0"), workload("a/1"), workload("a/*")))
        reload(fleet, pool("p", ["a"]), base=(workload("a/0"), workload("a/*")))
        with pytest.raises(Refused, match=r"limits\.workloads is 3: 1 more are needed, and 0 remain"):
            start(fleet, "a/0")
        stop(fleet, running)
        fleet.advance()
        assert list(fleet.workloads.by_id) == ["base-work", "base-work-2"]
        start(fleet, "a/0")

    def test_workload_series_follow(self) -> None:
        fleet = make_fleet(pool("p", ["a", "b"]), base=(workload("all"),))
        series = WorkloadSeries(fleet)
        assert b'node="a"' in series.render()
        reload(fleet, pool("p", ["c", "b"]))
        fleet.advance()
        page = series.render()
        assert (page.count(b'node="a"'), page.count(b'node="c"'), page.count(b'node="b"')) == (0, 2, 2)

    def test_labels_follow(self) -> None:
        fleet = make_fleet(pool("p", ["a", "b"]))
        first = start(fleet, "b/0", pod="one")
        start(fleet, "b/*", pod="two")
        advance(fleet, 2)
        version = fleet.state.labels_version
        reload(fleet, pool("p", ["b", "c", "a"]))
        fleet.advance()
        assert labels_of(fleet, "b", ["pod"]) == [("one",), ("two",)]
        assert fleet.state.labels_version > version
        stop(fleet, first)
        advance(fleet, 2)
        assert labels_of(fleet, "b", ["pod"]) == [("two",), ("two",)]
        assert labels_of(fleet, "a", ["pod"]) == [("",), ("",)]

    def test_limits(self) -> None:
        fleet = make_fleet(pool("p", ["a", "b"]))
        start(fleet, "b/0", "10:0:2,90:0:0", limits={"power_watts": 150})
        start(fleet, "b/1", "95:0:0", limits={"pcie_tx_bytes_per_second": 1000})
        fleet.advance()
        less = {name: each for name, each in BOARD.ranges.items() if name != "pcie_tx_bytes_per_second"}
        reload(fleet, pool("p", ["b"], device_type=replace(BOARD, ranges=less)))
        assert ended(fleet, 4) == [(3, "w1", 1, "Limit power_watts reached, terminated")]
        assert loads(fleet) == [0.0, 95.0]


class TestFault:
    @pytest.mark.slow
    def test_every_kind(self) -> None:
        """A device under a fault shows what it would have shown without any reload; so does the page of its node."""
        for kind in (kind for kind in KINDS.values() if not kind.needs_racks):
            values = {each.name: each.default or each.high for each in kind.parameters if not each.instead_of}
            if kind.name == "xid":
                values |= {"code": 79, "subcode": 0, "status": 0, "reason": 0}
            if kind.name == "power-cap":
                values["watts"] = 300
            moving, still = (make_fleet(boards_of("h100", nodes=2), seed=4) for _ in range(2))
            for fleet in (moving, still):
                start(fleet, "*/*", "60:20:0", pod="train")
                advance(fleet, 3)
                inject(fleet, kind=kind.name, devices=["dgx-1/0"], every=4.0, probability=0.6, **values)
                advance(fleet, 3)
            for fleet in (moving, still):
                if "w1" in fleet.workloads.by_id:
                    stop(fleet, "w1")
            dgx = moving.spec.pools[0]
            reload(moving, pool("other", ["x"]), replace(dgx, nodes=dgx.nodes[::-1]))
            for _ in range(12):
                moving.advance()
                still.advance()
                assert shown(moving, "dgx") == shown(still, "dgx")
                names = frozenset(["dgx-1"])
                assert moving.page_faults.of(names) == still.page_faults.of(names)
                assert moving.page_faults.of(frozenset(["x"])) is None
                for node in still.roster.nodes:
                    moved = moving.roster.node(node.name)
                    assert moved is not None
                    assert moving.labels.shared_facts(moved) == still.labels.shared_facts(node)

    def test_faults_without_devices_are_over(self) -> None:
        fleet = make_fleet(boards_of("h100", nodes=2))
        inject(fleet, kind="lost", devices=["dgx-0/0"])
        both = inject(fleet, kind="lost", devices=["*/1"])
        fleet.advance()
        dgx = fleet.spec.pools[0]
        reload(fleet, replace(dgx, nodes=dgx.nodes[1:]))
        advance(fleet, 2)
        assert (list(fleet.faults.by_id), fleet.lost.tolist()) == ([both], [0.0, 1.0])

    def test_faults_of_the_configuration(self) -> None:
        """The same ones continue, on the devices that their words name now; others end, or are cleared, and begin."""
        some = {word: FaultSpec("lost", (word,)) for word in ("*/0", "dgx-0/1", "dgx-1/1")}
        fleet = make_fleet(boards_of("h100"), faults=(some["*/0"], some["dgx-0/1"]))
        fleet.advance()
        assert fleet.lost.tolist() == [1.0, 1.0]
        reload(fleet, boards_of("h100", nodes=2), faults=(some["dgx-1/1"], some["*/0"]))
        fleet.advance()
        assert fleet.lost.tolist() == [1.0, 0.0, 1.0, 1.0]
        for fault_id in list(fleet.faults.by_id):
            fleet.apply(ClearFaults((fault_id,)))
        reload(fleet, boards_of("h100"), faults=())
        fleet.advance()
        assert (fleet.lost.tolist(), dict(fleet.faults.by_id)) == ([0.0, 0.0], {})

    def test_room(self) -> None:
        fleet = make_fleet(boards_of("h100"), limits=Limits(faults=2))
        inject(fleet, kind="nan", devices="dgx-0/0")
        some = tuple(FaultSpec(kind, ("dgx-0/0",)) for kind in ("absent", "frozen"))
        with pytest.raises(Refused, match=r"limits\.faults is 2: 2 more are needed, and 1 remain"):
            reload(fleet, boards_of("h100"), faults=some)
        reload(fleet, boards_of("h100"), faults=some[:1])
        with pytest.raises(Refused, match=r"limits\.faults is 2: 1 more are needed, and 0 remain"):
            inject(fleet, kind="nan", devices="dgx-0/1")
        fleet.advance()
        first, second = fleet.faults.by_id
        assert first == "f1"
        assert second.startswith("config-absent-")
        assert "reload" in [each.kind for each in fleet.journal.last(20)]


def test_a_record_without_configurations_is_refused() -> None:
    lines = [head_line(SOURCE)]
    fleet = make_fleet(pool("p", ["a"]), record=lambda stamped: lines.append(event_line(stamped)))
    start(fleet, "a/0")
    reload(fleet, pool("p", ["b"]))
    with pytest.raises(Refused, match="line 3: a reload cannot be run again here"):
        read_record(b"".join(lines))


NODES = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(NODES, min_size=2, max_size=5))
def test_who_is_always_there_has_one_history(fleets: list[list[str]]) -> None:
    """A node of all configurations shows what it would have shown without any reload."""
    common = sorted(set.intersection(*map(set, fleets)))
    base = (workload("*/*", "30:20:4,70:10:3", repeat=0),)
    both = moving, still = [make_fleet(pool("p", fleets[0]), base=base, seed=3) for _ in range(2)]
    for fleet in both:
        for node in common:
            start(fleet, f"{node}/1", "20:10:0", pod="p", metrics={"memory": "20%:5%:0"})
    for nodes in fleets[1:]:
        for fleet in both:
            advance(fleet, 3)
        reload(moving, pool("p", nodes))
    for fleet in both:
        advance(fleet, 3)
    seen, expected = shown(moving), shown(still)
    assert len(seen) == 2 * len(fleets[-1])
    for node in common:
        assert labels_of(moving, node, ["pod", "uuid"]) == labels_of(still, node, ["pod", "uuid"])
        for index in range(2):
            assert seen[f"{node}/{index}"] == expected[f"{node}/{index}"]
