"""Faults in shards: each takes and refuses them as the whole fleet does, and shows what they do."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.config.schema.nodes import ConfigurationError
from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.events import Reload
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import Refused
from fakedev.spec.fault import FaultSpec
from fakedev.spec.fault_fields import fault_from_fields
from fakedev.spec.fleet import FleetSpec
from fakedev.spec.record_head import RecordHead
from tests.support.application import application
from tests.support.calibration import catalog_type
from tests.support.faulty_fleets import boards_of, inject
from tests.support.fleets import advance, pool_of
from tests.support.shards import assert_same, shards_of

#: Boards without a temperature of their memory on two nodes, and one node of those that have it.
SPEC = FleetSpec((pool_of("a", nodes=2, device_type=catalog_type("t4")), boards_of("h100")))
METRIC = "memory-temperature-celsius"
KINDS = ("absent", "nan", "sentinel", "frozen", "counter-reset")
UNKNOWN = "no metric 'memory-colour'"

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
    """A fault of one metric."""
    return fault_from_fields({"kind": kind, "devices": devices, "metric": metric})


def file_of(shard: str, fault: str = "") -> str:
    """The file of a shard, with a fault."""
    return FILE.replace("SHARD", shard).replace("FAULTS", fault)


class TestFleets:
    """The fleets of all shards beside the whole."""

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

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_configuration(self, kind: str) -> None:
        """The same from the first tick on; and on boards that come to a shard later."""
        spec = replace(SPEC, faults=(fault_of(kind, "*/*"),))
        grown = replace(spec, pools=(spec.pools[0], boards_of("h100", nodes=3)))
        whole, shards = Fleet(spec), shards_of(spec, 2)
        for coming in (grown, spec, grown):
            for fleet in (whole, *shards):
                advance(fleet, 2)
                compiled = CompiledFleet(replace(coming, shard=fleet.spec.shard))
                fleet.apply(Reload(compiled, RecordHead("1", 0.0)))
                advance(fleet, 2)
                assert len(fleet.faults.by_id) == (kind != "counter-reset")
                assert list(fleet.faults.by_id) == list(whole.faults.by_id)
            assert_same(whole, shards)

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
            coming = replace(spec, pools=(spec.pools[0], boards_of("h100", nodes=nodes)))
            for fleet in (whole, *shards):
                fleet.apply(Reload(CompiledFleet(replace(coming, shard=fleet.spec.shard)), RecordHead("1", 0.0)))
            for _ in range(3):
                for fleet in (whole, *shards):
                    fleet.advance()
                assert_same(whole, shards)
            assert [list(shard.faults.by_id) for shard in shards] == [list(whole.faults.by_id)] * 2

    def test_what_only_boards_elsewhere_can_have(self) -> None:
        """A fault of the configuration that the whole fleet takes is no error of a shard without such boards."""
        cap = fault_from_fields({"kind": "power-cap", "devices": "*/*", "watts": 600})
        link = fault_from_fields({"kind": "link-down", "devices": "*/*", "link": 3})
        spec = replace(SPEC, faults=(cap, link))
        whole, shards = Fleet(spec), shards_of(spec, 2)
        for fleet in (whole, *shards):
            advance(fleet, 2)
        assert_same(whole, shards)

    def test_metrics_that_go(self) -> None:
        """A fault ends everywhere when no board of the fleet has its metric any more."""
        for fleet in (Fleet(SPEC), *shards_of(SPEC, 2)):
            inject(fleet, kind="nan", devices="a-*/0", metric=METRIC)
            advance(fleet, 2)
            compiled = CompiledFleet(replace(SPEC, pools=SPEC.pools[:1], shard=fleet.spec.shard))
            fleet.apply(Reload(compiled, RecordHead("1", 0.0)))
            fleet.advance()
            assert not fleet.faults.by_id

    def test_unknown_metrics(self) -> None:
        """What no board of the fleet has is refused everywhere, in the same words."""
        wrong = fault_of("nan", "*/0", "memory-colour")
        for fleet in (Fleet(SPEC), *shards_of(SPEC, 2)):
            with pytest.raises(Refused) as refused:
                inject(fleet, kind="nan", devices="*/0", metric="memory-colour")
            assert (refused.value.where, refused.value.text) == ("metric", UNKNOWN)
            with pytest.raises(Refused) as refused:
                Fleet(replace(SPEC, faults=(wrong,), shard=fleet.spec.shard))
            assert (refused.value.where, refused.value.text) == ("metric", UNKNOWN)


@pytest.mark.parametrize("shard", SHARDS)
class TestPrograms:
    """Programs of all shards beside that of the whole."""

    def test_the_port(self, shard: str) -> None:
        """Words and JSON lines."""
        with application(file_of(shard)) as app:
            peer = app.connect()
            assert peer.say(f"fault nan devices=*/0 metric={METRIC}") == ["ok f2"]
            fields = {"kind": "nan", "devices": ["a-*/0", "dgx-*/0"], "metric": "DCGM_FI_DEV_MEMORY_TEMP"}
            assert app.connect().ask(op="fault", **fields) == {"ok": True, "fault": "f3"}
            app.tick()
            assert [line.split()[0] for line in peer.say("faults")[1:]] == ["f2", "f3"]
            assert peer.say("fault nan devices=*/0 metric=memory-colour") == [f"error unknown-name {UNKNOWN}"]

    def test_the_api(self, shard: str) -> None:
        """Collections of the API."""
        with application(file_of(shard)) as app:
            fault = {"kind": "absent", "devices": ["*/0"], "metric": METRIC}
            assert app.ask("POST", "/api/v1/faults", fault).status == 201
            refused = app.ask("POST", "/api/v1/faults", fault | {"metric": "memory-colour"})
            error = json.loads(refused.body)["error"]
            assert (refused.status, error["where"], error["message"]) == (400, "metric", UNKNOWN)

    def test_the_configuration(self, shard: str) -> None:
        """The file of the program."""
        with application(file_of(shard, f"{{kind: frozen, devices: a-*/0, metric: {METRIC}}}")) as app:
            app.tick(2)
            assert app.get("/metrics").status == 200
        with pytest.raises(ConfigurationError) as refused:
            load(None, Files(environ={}), text=file_of(shard, "{kind: nan, devices: all, metric: memory-colour}"))
        assert UNKNOWN in str(refused.value)
