"""Shards: several processes that each have a slice of one fleet are together as the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from fakedev.sim.errors import Refused
from fakedev.sim.events import InjectFault, Reload, StartWorkload
from fakedev.sim.faults.fields import fault_from_fields
from fakedev.sim.faults.kinds import KINDS
from fakedev.sim.faults.spec import FaultSpec
from fakedev.sim.fleet import Fleet
from fakedev.sim.machinery import Machinery
from fakedev.sim.record_head import RecordHead
from fakedev.sim.shards import Shard, parse_shard, shard_number, shard_of_host
from fakedev.sim.spec import FleetSpec, PoolSpec, WorkloadSpec
from fakedev.sim.workload_fields import workload_from_fields
from tests.calibration import catalog_type
from tests.fleets import BOARD, advance, make_fleet, pool_of, start, workload
from tests.shards import families, node_pages, page, shards_of

_TITLE = "dcgm@4.8.2"
_TYPES = {name: catalog_type(name) for name in ("h100", "t4", "intel-dg1")} | {
    "odd": replace(BOARD, memory_total_bytes=0, memory_page_bytes=1, limits={"power_watts": 240.0})
}
_SOURCE = RecordHead("1", 0.0)


class ShardTests(SynchronousTestCase):
    """Which shard a node is in, and how shards are written."""

    def test_counted_nodes_are_spread_evenly(self) -> None:
        """Nodes whose names differ in their last number are dealt round."""
        for count in (1, 2, 3, 7):
            for pattern in ("dgx-{}", "rack1-gpu{}-a", "node-{:04}.dc1.example.com", "{}"):
                found = Counter(shard_number(pattern.format(number), count) for number in range(100))
                least = min(found[each] for each in range(count))
                self.assertLessEqual(max(found.values()) - least, 1, (count, pattern))

    def test_other_nodes_stay(self) -> None:
        """A node's shard follows from its name alone, and never changes between versions."""
        self.assertEqual([shard_number(f"dgx-{number}", 3) for number in range(4)], [1, 2, 0, 1])
        self.assertEqual(shard_number("login", 5), 4)

    def test_texts(self) -> None:
        """A number and how many there are, from 0."""
        self.assertEqual(parse_shard("0/1"), Shard(0, 1))
        self.assertEqual(str(parse_shard("12/13")), "12/13")
        for text in ("", "1", "3/3", "0/0", "-1/2", "a/2", "1/2/3", " 0/2", "0/99999", "٣/5"):
            with self.assertRaises(ValueError, msg=text):
                parse_shard(text)

    def test_hosts(self) -> None:
        """The pods of a StatefulSet have a number at the end of their names."""
        self.assertEqual(shard_of_host("fakedev-12"), 12)
        self.assertEqual(shard_of_host("fakedev-0.fakedev.svc"), 0)
        for host in ("fakedev", "fakedev-", "fakedev-7d9c-x2k8q", "node12"):
            with self.assertRaises(ValueError, msg=host):
                shard_of_host(host)

    def test_without_nodes(self) -> None:
        """A shard without any node is refused."""
        with self.assertRaisesRegex(Refused, "has none of the 2 nodes"):
            for number in range(3):
                make_fleet(pool_of(nodes=2), shard=Shard(number, 3))


def _same(whole: Fleet, shards: Sequence[Fleet], title: str = _TITLE) -> None:
    expected = node_pages(whole, title)
    together: dict[str, bytes] = {}
    for shard in shards:
        pages = node_pages(shard, title)
        assert not set(pages) & set(together)
        together |= pages
    assert together == expected, f"tick {whole.state.tick}"
    assert families(page(shard, title) for shard in shards) == families([page(whole, title)])


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
    profiles = ("60:20:0", "90:5:3,10:10:2", "random(0,80,2):0:9", "100")
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


def _taken(pools: tuple[PoolSpec, ...], seed: int, base: Sequence[Any], faults: Sequence[Any]) -> FleetSpec:
    """A fleet with those of the workloads and faults that it can have."""
    spec = FleetSpec(pools, seed)
    fleet = Fleet(spec)

    def is_taken(event: Any) -> bool:
        try:
            fleet.apply(event)
        except Refused:
            return False
        return True

    return replace(
        spec,
        base=tuple(each for each in base if is_taken(StartWorkload(each))),
        faults=tuple(each for each in faults if is_taken(InjectFault(each))),
    )


@st.composite
def _fleets(draw: st.DrawFn) -> FleetSpec:
    pools = draw(_pools())
    base = draw(st.lists(_workload(pools), max_size=4))
    return _taken(pools, draw(st.integers(0, 2**40)), base, draw(st.lists(_fault(pools), max_size=3)))


class WholeTests(SynchronousTestCase):
    """The pages of all shards together are those of the whole fleet."""

    @settings(max_examples=60, deadline=None)
    @given(spec=_fleets(), count=st.integers(1, 5))
    def test_any_configuration(self, spec: FleetSpec, count: int) -> None:
        """Byte for byte, in each tick, whatever works and goes wrong there."""
        whole, shards = Fleet(spec), shards_of(spec, count)
        _same(whole, shards)
        for _ in range(12):
            for fleet in (whole, *shards):
                fleet.advance()
            _same(whole, shards)
