"""Shards: several processes that each have a slice of one fleet are together as the whole."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from fakedev.base.errors import Refused
from fakedev.config.load import load
from fakedev.fleet.events import Event, InjectFault, Reload, StartWorkload
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fault_kinds import fault_from_fields
from fakedev.fleet.spec.fleet_spec import FaultSpec, FleetSpec, PoolSpec
from fakedev.fleet.spec.limits import RecordHead, Shard, parse_shard, shard_number, shard_of_host
from fakedev.schema.files import Files
from fakedev.schema.places import ConfigurationError
from tests.support.application import application
from tests.support.examples import examples
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.faulty_fleets import boards_of, inject
from tests.support.fleet.fleets import advance, loads, make_fleet, pool_of, reload, start, workload
from tests.support.fleet.histories import faults as faults_on
from tests.support.fleet.histories import is_taken, pools, workloads
from tests.support.fleet.shards import assert_same, shards_of


class TestShard:
    def test_counted_nodes_are_spread_evenly(self) -> None:
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
        """A number and how many there are, from 0; pods of a StatefulSet have a number at the end of their names."""
        assert (parse_shard("0/1"), str(parse_shard("12/13"))) == (Shard(0, 1), "12/13")
        assert [shard_of_host(host) for host in ("fakedev-12", "fakedev-0.fakedev.svc")] == [12, 0]
        for text in ("", "1", "3/3", "0/0", "-1/2", "a/2", "1/2/3", " 0/2", "0/99999", "٣/5"):
            with pytest.raises(ValueError):
                parse_shard(text)
        for host in ("fakedev", "fakedev-", "fakedev-7d9c-x2k8q", "node12"):
            with pytest.raises(ValueError):
                shard_of_host(host)

    def test_without_nodes(self) -> None:
        with pytest.raises(Refused, match="has none of the 2 nodes"):
            for number in range(3):
                make_fleet(pool_of(nodes=2), shard=Shard(number, 3))


#: Making a failing fleet smaller takes minutes.
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


class TestWhole:
    @pytest.mark.slow
    @settings(max_examples=examples(15), deadline=None, phases=_PHASES)
    @given(data=st.data(), count=st.integers(2, 4))
    def test_any_events(self, data: st.DataObject, count: int) -> None:
        """Workloads and faults that come later, each sent to the shards that have devices of it."""
        # What ends work on one shard (heat, limits of devices, full memory) ends that of a request only there.
        some = tuple(
            replace(pool, inlet_celsius=None, device_type=replace(pool.device_type, limits={}))
            for pool in (data.draw(pools(name)) for name in ("p", "q"))
        )
        spec = FleetSpec(some, data.draw(st.integers(0, 99)))
        whole, shards = Fleet(spec), shards_of(spec, count)
        for _ in range(8):
            for event in data.draw(st.lists(_event(some), max_size=2)):
                if is_taken(whole, event):
                    taken = [is_taken(shard, event) for shard in shards]
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

    @pytest.mark.slow
    def test_mixed_identities(self) -> None:
        spec = FleetSpec((boards_of("h100", nodes=3),), base=(workload("all", "50:20:0", pod="p", namespace="n"),))
        whole, shards = Fleet(spec), shards_of(spec, 2)
        for fleet in (whole, *shards):
            advance(fleet, 2)
        for title in ("dcgm@3.0", "dcgm@4.8.3", "nvidia-gpu-exporter@1", "run-ai@0.2", "dcgm-fake@1"):
            assert_same(whole, shards, title)


@st.composite
def _event(draw: st.DrawFn, some: Sequence[PoolSpec]) -> Event:
    """A workload on one node, or a plain one on several; a fault that ends no work of several."""
    if draw(st.booleans()):
        workload = draw(workloads(*some))
        node = draw(st.sampled_from([node.name for pool in some for node in pool.nodes]))
        if draw(st.booleans()):
            return StartWorkload(replace(workload, devices=(f"{node}/0",), uses=(), faults=()))
        words = ("*/*", "p-*/even")
        # One that was measured elsewhere has the speed of its slowest board, in each shard of that shard's boards.
        here = replace(workload, measured_frequency_mhz=0.0, measured_capability=0.0, is_work=False)
        return StartWorkload(replace(here, limits=(), uses=(), faults=(), devices=words))
    names = ("inlet", "power-brake", "ecc-single", "absent", "frozen", "pcie-replays")
    return InjectFault(replace(draw(faults_on(*some)), kind=draw(st.sampled_from(names)), values={}, devices=("*/0",)))


class TestOneShard:
    def setup_method(self) -> None:
        """Four nodes in two shards, of which dgx-0 and dgx-2 are here."""
        self.spec = FleetSpec((pool_of(nodes=4, devices_per_node=2),))
        self.fleet = next(shard for shard in shards_of(self.spec, 2) if shard.roster.node("dgx-0"))
        assert self.fleet.spec.shard is not None
        self.here, self.other = str(self.fleet.spec.shard), self.fleet.spec.shard.other("dgx-1").number

    def test_devices_of_others(self) -> None:
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
        base = (workload("all", "50:20:0"), workload("dgx-[3-5]/*", "30:10:0"))
        specs = [
            replace(self.spec, base=base, pools=(pool_of(nodes=nodes, devices_per_node=2),)) for nodes in (6, 4, 6)
        ]
        whole, shards = Fleet(specs[0]), shards_of(specs[0], 2)
        for spec in specs[1:]:
            for fleet in (whole, *shards):
                advance(fleet, 2)
                reload(fleet, *spec.pools)
                fleet.advance()
            assert_same(whole, shards)
            counts = sorted(len(shard.workloads.by_id) for shard in shards)
            assert counts == ([1, 2] if len(spec.pools[0].nodes) == 4 else [2, 2])
        with pytest.raises(Refused, match=r"fleet\.shard cannot be changed"):
            whole.apply(Reload(shards[0].compiled, RecordHead("1", 0.0)))


#: Boards without a temperature of their memory on two nodes, and one node of those that have it.
SPEC = FleetSpec((pool_of("a", nodes=2, device_type=catalog_type("t4")), boards_of("h100")))
METRIC = "memory-temperature-celsius"
KINDS = ("absent", "nan", "sentinel", "frozen", "counter-reset")
UNKNOWN = "no metric 'memory-colour'; did you mean memory?"

#: The same as a file; a place for faults and for the shard is left.
FILE = """
version: 1
fleet:
  seed: 7
  shard: SHARD
  pools:
    - {name: a, nodes: [a-0, a-1], device: t4, devices-per-node: 2, identity: dcgm}
    - {name: dgx, nodes: [dgx-0], device: h100, devices-per-node: 2, identity: dcgm}
web: ["127.0.0.1:9400"]
workloads: {listen: [{listen: "127.0.0.1:9500", allow: [faults]}]}
faults: [FAULTS]
"""
SHARDS = ("null", "0/2", "1/2")


def fault_of(kind: str, devices: str, metric: str = METRIC) -> FaultSpec:
    return fault_from_fields({"kind": kind, "devices": devices, "metric": metric})


def file_of(shard: str, fault: str = "") -> str:
    return FILE.replace("SHARD", shard).replace("FAULTS", fault)


class TestFleets:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("devices", ["a-*/0", "*/1"])
    def test_events(self, kind: str, devices: str) -> None:
        """A fault that comes later is taken where only boards elsewhere have its metric, and shows the same."""
        whole, shards = Fleet(SPEC), shards_of(SPEC, 2)
        for fleet in (whole, *shards):
            inject(fleet, kind=kind, devices=devices, metric=METRIC)
            advance(fleet, 3)
            assert len(fleet.faults.by_id) == (kind != "counter-reset")
        assert_same(whole, shards)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "fields",
        [
            {"kind": "lost"},
            {"kind": "nan", "metric": METRIC, "start": 3},
            {"kind": "inlet", "duration": 6},
            {"kind": "frozen", "every": 2, "probability": 0.5},
            {"kind": "ecc-single"},
            {"kind": "ecc-single", "every": 3},
            {"kind": "slow-page"},
        ],
    )
    def test_boards_that_come(self, fields: dict[str, object]) -> None:
        """A fault of the configuration concerns boards that come to a shard which had none of its devices."""
        spec = replace(SPEC, faults=(fault_from_fields({"devices": "dgx-*/*", **fields}),))
        whole, shards = Fleet(spec), shards_of(spec, 2)
        for nodes in (1, 3, 1, 2):
            for fleet in (whole, *shards):
                reload(fleet, spec.pools[0], boards_of("h100", nodes=nodes))
            for _ in range(3):
                for fleet in (whole, *shards):
                    fleet.advance()
                assert_same(whole, shards)
            assert [list(shard.faults.by_id) for shard in shards] == [list(whole.faults.by_id)] * 2

    def test_what_only_boards_elsewhere_can_have(self) -> None:
        """A fault of the configuration that the whole fleet takes is no error of a shard without such boards."""
        cap = fault_from_fields({"kind": "power-cap", "devices": "*/*", "watts": 600})
        link = fault_from_fields({"kind": "link-down", "devices": "*/*", "link": 3})
        base = workload("a-*/*", faults="link-down")
        spec = replace(SPEC, faults=(cap, link), base=(base,))
        whole, shards = Fleet(spec), shards_of(spec, 2)
        for fleet in (whole, *shards):
            advance(fleet, 2)
            assert "base-work-1" not in fleet.faults.by_id, "no device of the workload can have it"
        assert_same(whole, shards)

    def test_metrics_that_go(self) -> None:
        for fleet in (Fleet(SPEC), *shards_of(SPEC, 2)):
            inject(fleet, kind="nan", devices="a-*/0", metric=METRIC)
            advance(fleet, 2)
            reload(fleet, SPEC.pools[0])
            fleet.advance()
            assert not fleet.faults.by_id

    def test_unknown_metrics(self) -> None:
        wrong = fault_of("nan", "*/0", "memory-colour")
        for fleet in (Fleet(SPEC), *shards_of(SPEC, 2)):
            with pytest.raises(Refused) as refused:
                inject(fleet, kind="nan", devices="*/0", metric="memory-colour")
            assert (refused.value.where, refused.value.text) == ("metric", UNKNOWN)
            with pytest.raises(Refused) as refused:
                Fleet(replace(SPEC, faults=(wrong,), shard=fleet.spec.shard))
            assert (refused.value.where, refused.value.text) == ("metric", UNKNOWN)


@pytest.mark.parametrize("shard", SHARDS)
def test_programs(shard: str) -> None:
    """Words, JSON lines, the API and the file of the program of a shard."""
    with application(file_of(shard, f"{{kind: frozen, devices: a-*/0, metric: {METRIC}}}")) as app:
        peer = app.connect()
        assert peer.say(f"fault nan devices=*/0 metric={METRIC}") == ["ok f2"]
        fields = {"kind": "nan", "devices": ["a-*/0", "dgx-*/0"], "metric": "DCGM_FI_DEV_MEMORY_TEMP"}
        assert app.connect().ask(op="fault", **fields) == {"ok": True, "fault": "f3"}
        app.tick()
        assert [line.split()[0] for line in peer.say("faults")[2:]] == ["f2", "f3"]
        assert peer.say("fault nan devices=*/0 metric=memory-colour") == [f"error unknown-name {UNKNOWN}"]
        fault = {"kind": "absent", "devices": ["*/0"], "metric": METRIC}
        assert app.ask("POST", "/api/v1/faults", fault).status == 201
        refused = app.ask("POST", "/api/v1/faults", fault | {"metric": "memory-colour"})
        error = json.loads(refused.body)["error"]
        assert (refused.status, error["where"], error["message"]) == (400, "metric", UNKNOWN)
        assert app.get("/metrics").status == 200
    with pytest.raises(ConfigurationError) as wrong:
        load(None, Files(environ={}), text=file_of(shard, "{kind: nan, devices: all, metric: memory-colour}"))
    assert UNKNOWN in str(wrong.value)
