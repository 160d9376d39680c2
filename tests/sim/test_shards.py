"""Shards: several processes that each have a slice of one fleet are together as the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.events import Event, InjectFault, Reload, StartWorkload
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import Refused
from fakedev.spec.fault import FaultSpec
from fakedev.spec.fault_fields import fault_from_fields
from fakedev.spec.fault_kinds import KINDS
from fakedev.spec.fleet import ChurnKind, ChurnSpec, FleetSpec, PoolSpec, WorkloadSpec
from fakedev.spec.record_head import RecordHead
from fakedev.spec.shards import Shard, parse_shard, shard_number, shard_of_host
from fakedev.spec.workload_fields import workload_from_fields
from tests.support.calibration import catalog_type
from tests.support.examples import examples
from tests.support.faulty_fleets import boards_of, inject
from tests.support.fleets import BOARD, advance, loads, make_fleet, pool_of, start, workload
from tests.support.shards import assert_same, shards_of

_TYPES = {name: catalog_type(name) for name in ("h100", "t4", "intel-dg1")} | {
    "odd": replace(BOARD, memory_total_bytes=0, memory_page_bytes=1, limits={"power_watts": 240.0})
}
_CHURN = ChurnSpec(0.3, (ChurnKind(workload(name="come", profile="80:20", repeat=0), 2.0, 9.0, counts=(1, 2)),))


class TestShard:
    """Which shard a node is in, and how shards are written."""

    def test_counted_nodes_are_spread_evenly(self) -> None:
        """Nodes with names that differ in their last number go to the shards in turn."""
        for count in (1, 2, 3, 7):
            for pattern in ("dgx-{}", "rack1-gpu{}-a", "node-{:04}.dc1.example.com", "{}"):
                found = Counter(shard_number(pattern.format(number), count) for number in range(100))
                least = min(found[each] for each in range(count))
                assert max(found.values()) - least <= 1, (count, pattern)

    def test_other_nodes_stay(self) -> None:
        """A node's shard follows only from its name, and never changes between versions."""
        assert [shard_number(f"dgx-{number}", 3) for number in range(4)] == [1, 2, 0, 1]
        assert shard_number("login", 5) == 4

    def test_texts(self) -> None:
        """A number and how many there are, from 0."""
        assert parse_shard("0/1") == Shard(0, 1)
        assert str(parse_shard("12/13")) == "12/13"
        for text in ("", "1", "3/3", "0/0", "-1/2", "a/2", "1/2/3", " 0/2", "0/99999", "٣/5"):
            with pytest.raises(ValueError):
                parse_shard(text)

    def test_hosts(self) -> None:
        """The pods of a StatefulSet have a number at the end of their names."""
        assert shard_of_host("fakedev-12") == 12
        assert shard_of_host("fakedev-0.fakedev.svc") == 0
        for host in ("fakedev", "fakedev-", "fakedev-7d9c-x2k8q", "node12"):
            with pytest.raises(ValueError):
                shard_of_host(host)

    def test_without_nodes(self) -> None:
        """A shard without any node is refused."""
        with pytest.raises(Refused, match="has none of the 2 nodes"):
            for number in range(3):
                make_fleet(pool_of(nodes=2), shard=Shard(number, 3))


@st.composite
def _pools(draw: st.DrawFn) -> tuple[PoolSpec, ...]:
    count = draw(st.integers(1, 3))
    return tuple(
        pool_of(
            f"p{number}",
            nodes=draw(st.integers(1, 5)),
            device_type=_TYPES[draw(st.sampled_from(sorted(_TYPES)))],
            devices_per_node=draw(st.integers(1, 3)),
            inlet_celsius=draw(st.sampled_from((None, None, 30.0, 70.0))),
            churn=draw(st.sampled_from((None, _CHURN))),
        )
        for number in range(count)
    )


def _words(pools: Sequence[PoolSpec]) -> st.SearchStrategy[list[str]]:
    names = [node.name for pool in pools for node in pool.nodes]
    single = st.sampled_from([f"{name}/0" for name in names])
    group = st.sampled_from(["all", "*/0", "even", "p0-[0-1]/*", "p0-*/all"])
    return st.lists(st.one_of(single, single, group), min_size=1, max_size=3)


@st.composite
def _workload(draw: st.DrawFn, pools: Sequence[PoolSpec]) -> WorkloadSpec:
    fields: dict[str, Any] = {"name": draw(st.sampled_from("abc")), "devices": draw(_words(pools))}
    profiles = ("60:20:0", "90:5:3,10:10:2", "random(0,80,2):0:9", "100", "5:4:2:1.5:once,33.3:20:1.7:2,daily(7,33):3")
    fields["profile"] = draw(st.sampled_from(profiles))
    fields["repeat"] = draw(st.sampled_from((0, 1)))
    fields["kind"] = draw(st.sampled_from(("compute", "tensor", "memory")))
    fields["pod"] = draw(st.sampled_from(("", "pod-1", "pod-2")))
    for name, values in {
        "limits": ({}, {}, {"power": 200.0}, {"temperature": 60.0}),
        "metrics": ({}, {}, {"memory": [[60 * 2**30, 0, 4], [70 * 2**30, 0, 0]]}),
        "seconds-of": ("time", "time", "work"),
        "run-time-limit": (0, 0, 7),
    }.items():
        value = draw(st.sampled_from(values))
        if value and not (name == "seconds-of" and "random" in fields["profile"]):
            fields[name] = value
    return workload_from_fields(fields)


@st.composite
def _fault(draw: st.DrawFn, pools: Sequence[PoolSpec]) -> FaultSpec:
    kind = KINDS[draw(st.sampled_from(sorted(KINDS)))]
    fields: dict[str, Any] = {"kind": kind.name, "devices": draw(_words(pools))}
    for each in kind.parameters:
        if each.default is None:
            fields[each.name] = {"code": 79, "watts": 150.0, "megahertz": 700.0}[each.name]
    fields["start"] = draw(st.sampled_from((0, 2)))
    fields["duration"] = draw(st.sampled_from((0, 4)))
    fields["every"] = draw(st.sampled_from((0, 3)))
    fields["probability"] = draw(st.sampled_from((1, 0.5)))
    return fault_from_fields(fields)


def _is_taken(fleet: Fleet, event: Event) -> bool:
    try:
        fleet.apply(event)
    except Refused:
        return False
    return True


def _taken(pools: tuple[PoolSpec, ...], seed: int, base: Sequence[Any], faults: Sequence[Any]) -> FleetSpec:
    """A fleet with those of the workloads and faults that it can have."""
    spec = FleetSpec(pools, seed)
    fleet = Fleet(spec)

    return replace(
        spec,
        base=tuple(each for each in base if _is_taken(fleet, StartWorkload(each))),
        faults=tuple(each for each in faults if _is_taken(fleet, InjectFault(each))),
    )


@st.composite
def _fleets(draw: st.DrawFn) -> FleetSpec:
    pools = draw(_pools())
    base = draw(st.lists(_workload(pools), max_size=4))
    return _taken(pools, draw(st.integers(0, 2**40)), base, draw(st.lists(_fault(pools), max_size=3)))


#: Making a failing fleet smaller takes minutes.
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


class TestWhole:
    """The pages of all shards together are those of the whole fleet."""

    @settings(max_examples=examples(25), deadline=None, phases=_PHASES)
    @given(spec=_fleets(), count=st.integers(1, 5))
    def test_any_configuration(self, spec: FleetSpec, count: int) -> None:
        """Byte for byte, in each tick, with any workloads and faults there."""
        whole, shards = Fleet(spec), shards_of(spec, count)
        assert_same(whole, shards)
        for _ in range(12):
            for fleet in (whole, *shards):
                fleet.advance()
            assert_same(whole, shards)

    @settings(max_examples=examples(15), deadline=None, phases=_PHASES)
    @given(data=st.data(), count=st.integers(2, 4))
    def test_any_events(self, data: st.DataObject, count: int) -> None:
        """Workloads and faults that come later, each sent to the shards that have devices of it."""
        # What ends work on one shard (heat, limits of devices, full memory) ends that of a request only there.
        pools = tuple(
            replace(pool, inlet_celsius=None, device_type=replace(pool.device_type, limits={}))
            for pool in data.draw(_pools())
        )
        spec = FleetSpec(pools, data.draw(st.integers(0, 99)))
        whole, shards = Fleet(spec), shards_of(spec, count)
        for _ in range(8):
            for event in data.draw(st.lists(_event(pools), max_size=2)):
                if _is_taken(whole, event):
                    taken = [_is_taken(shard, event) for shard in shards]
                    assert any(taken), event
            for fleet in (whole, *shards):
                fleet.advance()
            assert_same(whole, shards)

    def test_order_of_arrival(self) -> None:
        """Two equal events in one tick are distinguished in the same way everywhere."""
        spec = FleetSpec((pool_of(nodes=2, devices_per_node=1),))
        whole, shards = Fleet(spec), shards_of(spec, 2)
        for fleet in (whole, *shards):
            start(fleet, "all", "20:20:0")
            start(fleet, "all", "20:20:0")
        start(whole, "dgx-0/0", "20:10:0")
        next(start(shard, "dgx-0/0", "20:10:0") for shard in shards if shard.roster.node("dgx-0"))
        for fleet in (whole, *shards):
            start(fleet, "all", "20:20:0")
            advance(fleet, 3)
        assert_same(whole, shards)

    def test_a_limit_on_what_another_pool_has(self) -> None:
        """A shard accepts what the whole fleet accepts, though none of its own boards has the metric."""
        spec = FleetSpec((pool_of("a", nodes=2), boards_of("h100", nodes=1)))
        limited = replace(workload("a-*/0", "50:0:0"), limits=(("memory_temperature_celsius", 90.0),))
        for fleet in (Fleet(spec), *shards_of(spec, 2)):
            fleet.apply(StartWorkload(limited))
            advance(fleet, 2)

    def test_mixed_identities(self) -> None:
        """Each identity of the catalog that can show the boards."""
        spec = FleetSpec((boards_of("h100", nodes=3),), base=(workload("all", "50:20:0", pod="p", namespace="n"),))
        whole, shards = Fleet(spec), shards_of(spec, 2)
        for fleet in (whole, *shards):
            advance(fleet, 2)
        for title in ("dcgm@3.0", "dcgm@4.8.3", "nvidia-gpu-exporter@1", "run-ai@0.2", "dcgm-fake@1"):
            assert_same(whole, shards, title)


@st.composite
def _event(draw: st.DrawFn, pools: Sequence[PoolSpec]) -> Event:
    """A workload on one node, or a plain one on several; a fault that ends no work of several."""
    if draw(st.booleans()):
        workload = draw(_workload(pools))
        node = draw(st.sampled_from([node.name for pool in pools for node in pool.nodes]))
        if draw(st.booleans()):
            return StartWorkload(replace(workload, devices=(f"{node}/0",), uses=()))
        plain = replace(workload, limits=(), uses=(), is_work=False, devices=("all", "p0-*/even"))
        return StartWorkload(plain)
    names = ("inlet", "power-brake", "ecc-single", "absent", "frozen", "pcie-replays")
    return InjectFault(replace(draw(_fault(pools)), kind=draw(st.sampled_from(names)), values={}, devices=("*/0",)))


class TestOneShard:
    """How a shard answers requests for nodes of others, also when nodes are added and removed."""

    def setup_method(self) -> None:
        """Four nodes in two shards, of which dgx-0 and dgx-2 are here."""
        self.spec = FleetSpec((pool_of(nodes=4, devices_per_node=2),))
        self.fleet = next(each for each in shards_of(self.spec, 2) if each.roster.node("dgx-0"))
        assert self.fleet.spec.shard is not None
        self.here, self.other = str(self.fleet.spec.shard), self.fleet.spec.shard.other("dgx-1").number

    def test_devices_of_others(self) -> None:
        """They are refused with the shard that has them; patterns take what is here."""
        is_elsewhere = f"is in shard {self.other} of 2, and this is shard {self.here}"
        for words, what in (
            ("dgx-1/0", "node 'dgx-1'"),
            ("dgx-0/0,dgx-3/1", "node 'dgx-3'"),
            ("dgx-[1-1]/*", "dgx-[1-1]/*: all that this names"),
        ):
            with pytest.raises(Refused) as caught:
                start(self.fleet, words)
            assert caught.value.text == f"{what} {is_elsewhere}"
            with pytest.raises(Refused) as caught:
                inject(self.fleet, kind="lost", devices=words.split(","))
            assert caught.value.text == f"{what} {is_elsewhere}"
        with pytest.raises(Refused) as caught:
            start(self.fleet, "card0", node="dgx-1")
        assert (caught.value.where, caught.value.text) == ("node", f"node 'dgx-1' {is_elsewhere}")
        with pytest.raises(Refused, match="no node 'dgx-9'"):
            start(self.fleet, "dgx-9/0")
        with pytest.raises(Refused, match="is on 4 nodes"):
            start(self.fleet, "card0")
        start(self.fleet, "dgx-*/1")
        self.fleet.advance()
        assert loads(self.fleet) == [0, 50, 0, 50]

    def test_ids(self) -> None:
        """Workloads and faults of the configuration have the same ids in every shard, faults are in all of them."""
        base = tuple(workload(f"dgx-{node}/0") for node in range(4))
        faults = tuple(FaultSpec("lost", (f"dgx-{node}/1",)) for node in range(4))
        shards = shards_of(replace(self.spec, base=base, faults=faults), 2)
        assert sorted(sorted(shard.workloads.by_id) for shard in shards) == [
            ["base-work", "base-work-3"],
            ["base-work-2", "base-work-4"],
        ]
        for shard in shards:
            assert list(shard.faults.by_id) == list(shards[0].faults.by_id)
        ids = list(shards[0].faults.by_id)
        here = [[each.fault_id for each in shard.faults.by_id.values() if len(each.devices)] for shard in shards]
        assert len(set(ids)) == 4
        assert sorted(here) == sorted([ids[::2], ids[1::2]])

    def test_only_what_is_needed(self) -> None:
        """Nodes of other shards are simulated when this shard's work depends on them, and shown nowhere."""
        for base, faults, tied in (
            ((workload("all"),), (), set()),
            ((workload("all"),), (FaultSpec("lost", ("dgx-1/0",)),), {"dgx-1"}),
            ((workload("all"),), (FaultSpec("nan", ("dgx-1/0",)),), set()),
            ((workload("dgx-2/0"),), (FaultSpec("lost", ("dgx-1/0",)),), set()),
            ((workload("dgx-[1-2]/*", limits={"power": 200}),), (), {"dgx-1"}),
            ((workload("dgx-[2-3]/*"), workload("dgx-1/0,dgx-3/0", seconds_of="work")), (), set()),
            ((workload("dgx-[2-3]/*", seconds_of="work"),), (), {"dgx-3"}),
        ):
            fleet = Fleet(replace(self.spec, base=base, faults=faults, shard=self.fleet.spec.shard))
            assert {node.name for node in fleet.roster.nodes} - {"dgx-0", "dgx-2"} == tied, (base, faults)
            assert [node.name for node in fleet.roster.shown] == ["dgx-0", "dgx-2"]
            assert [fleet.roster.node(name) for name in tied] == [None] * len(tied)
            assert fleet.roster.summary == f"4 devices on 2 nodes (shard {self.here})"

    def test_nodes_come_and_go(self) -> None:
        """A reload: those that stay do not notice, workloads follow their words."""
        base = (workload("all", "50:20:0"), workload("dgx-[3-5]/*", "30:10:0"))
        specs = [
            replace(self.spec, base=base, pools=(pool_of(nodes=nodes, devices_per_node=2),)) for nodes in (6, 4, 6)
        ]
        whole, shards = Fleet(specs[0]), shards_of(specs[0], 2)
        for spec in specs[1:]:
            for fleet in (whole, *shards):
                advance(fleet, 2)
                fleet.apply(Reload(CompiledFleet(replace(spec, shard=fleet.spec.shard)), RecordHead("1", 0.0)))
                fleet.advance()
            assert_same(whole, shards)
            counts = sorted(len(shard.workloads.by_id) for shard in shards)
            assert counts == ([1, 2] if len(spec.pools[0].nodes) == 4 else [2, 2])
        with pytest.raises(Refused, match=r"fleet\.shard cannot be changed"):
            whole.apply(Reload(shards[0].compiled, RecordHead("1", 0.0)))
