"""Parts of devices: work on them, what they show and what their devices do, faults, reloads."""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.base.errors import Refused
from fakedev.config.load import load
from fakedev.fleet.entities.selectors import resolve
from fakedev.fleet.explanation import explain
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.parts.part_layout import Parts
from fakedev.fleet.spec.fleet_spec import DeviceSpec, PoolSpec
from fakedev.schema.files import Files
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.divided_devices import (
    ROUND_PARTS,
    check_parts,
    divided_fleet,
    divided_pool,
    of_parts,
    parts_of,
)
from tests.support.fleet.faulty_fleets import cleared, inject
from tests.support.fleet.fleets import MIB, advance, ended, loads, make_fleet, pool_of, reload, start


class TestLayout:
    parts = Parts(4, [1, 1, 3], [ROUND_PARTS[0], ROUND_PARTS[1], ROUND_PARTS[2]])

    def test_units(self) -> None:
        """Devices first, then the parts of each in order."""
        assert [list(self.parts.of(device)) for device in range(4)] == [[], [4, 5], [], [6]]
        assert [self.parts.owner(unit) for unit in range(7)] == [0, 1, 2, 3, 1, 1, 3]
        assert self.parts.owners_of(np.arange(7)).tolist() == [0, 1, 2, 3, 1, 1, 3]
        assert self.parts.with_parts(np.array([1, 6])).tolist() == [1, 4, 5, 6]
        assert self.parts.with_work(np.array([0, 1, 6])).tolist() == [0, 4, 5, 6]
        assert self.parts.units(np.array([1.0, 2, 3, 4])).tolist() == [1, 2, 3, 4, 2, 2, 4]
        assert self.parts.spread(np.array([0, 1, 0, 0, 0, 0, 1]) > 0).tolist() == [
            False, True, False, False, True, True, True,
        ]  # fmt: skip
        assert self.parts.folded(np.arange(7.0), np.array([1.0, 2, 1])).tolist() == [0, 1 + 4 + 10, 2, 3 + 6]

    def test_none(self) -> None:
        """Without parts nothing is copied: arrays of devices are arrays of units."""
        nothing, values = Parts(3), np.arange(3.0)
        for each in (nothing.units(values), nothing.folded(values), nothing.owners_of(values.astype(np.int64))):
            assert each is values or each.tolist() == values.tolist()
        assert nothing.units(values) is values
        fleet = make_fleet()
        level = fleet.state.levels["device"]
        assert all(fleet.state.levels[name] is level for name in ("unit", "whole"))
        assert fleet.state.levels["part"].count == 0


class TestSelector:
    @pytest.mark.parametrize(
        ("words", "named"),
        [
            (["dgx-0/1/2"], ["dgx-0/1/2"]),
            (["dgx-0/1/*"], ["dgx-0/1/0", "dgx-0/1/1", "dgx-0/1/2"]),
            (["dgx-0/card1/0"], ["dgx-0/1/0"]),
            (["*/*/[1-9]"], ["dgx-0/1/1", "dgx-0/1/2"]),
            (["dgx-0/0", "dgx-0/1/0"], ["dgx-0/0", "dgx-0/1/0"]),
            (["dgx-0/1"], ["dgx-0/1"]),
            (["card1/2"], ["dgx-0/1/2"]),
            (["1/2"], ["dgx-0/1/2"]),
        ],
    )
    def test_words(self, words: list[str], named: list[str]) -> None:
        """By number, with wildcards, and not by words for devices; where the node is known it need not be named."""
        roster = divided_fleet().roster
        assert [roster.unit_name(unit) for unit in resolve(words, roster, "dgx-0").tolist()] == named

    @pytest.mark.parametrize(
        ("word", "text"),
        [
            ("dgx-0/1/3", "no part '3': dgx-0/1 has 3: 0 to 2"),
            ("dgx-0/0/0", "no part '0': dgx-0/0 is not divided"),
            ("dgx-9/0/0", "no node 'dgx-9'; did you mean dgx-0?"),
            ("dgx-0/9/0", "no device '9': dgx-0 has 4: 0 to 3"),
        ],
    )
    def test_refused(self, word: str, text: str) -> None:
        with pytest.raises(Refused) as caught:
            start(divided_fleet(), word)
        assert (str(caught.value), caught.value.where) == (text, "devices")


class TestWork:
    def test_one_part(self) -> None:
        """It keeps its part busy, and its device by the share that the part is."""
        fleet = divided_fleet()
        start(fleet, "dgx-0/1/1", "70:0:0")
        advance(fleet, 2)
        assert of_parts(fleet, "usage_ratio") == [0, 0.7, 0]
        assert loads(fleet) == [0, 20, 0, 0]
        assert fleet.power_watts[1] == 50 + 0.2 * 200
        assert of_parts(fleet, "power_watts") == [90, 90, 90]
        check_parts(fleet, fleet.state)

    def test_as_much_as_there_is(self) -> None:
        fleet = divided_fleet()
        for _ in range(3):
            start(fleet, "dgx-0/1/2", "80:0:0")
        start(fleet, "dgx-0/1/0", "50:0:0")
        advance(fleet, 1)
        assert of_parts(fleet, "usage_ratio") == [0.5, 0, 1]
        assert loads(fleet)[1] == round(100 * (0.5 * 4 + 1) / 7, 9)
        check_parts(fleet, fleet.state)

    def test_memory(self) -> None:
        fleet = divided_fleet()
        start(fleet, "dgx-0/1/0", "0:0:0", metrics={"memory": "300MiB"})
        stays = start(fleet, "dgx-0/1/1", "0:0:0", metrics={"memory": "150MiB"})
        advance(fleet, 1)
        assert [part / MIB for part in of_parts(fleet, "memory_used_bytes")] == [300, 150, 0]
        assert [part / MIB for part in of_parts(fleet, "memory_free_bytes")] == [100, 50, 100]
        assert fleet.memory_used_bytes[1] == 450 * MIB
        over = start(fleet, "dgx-0/1/1", "0:0:0", metrics={"memory": "60MiB"})
        assert ended(fleet, 2) == [(2, over, 1, "Limit memory_used_bytes reached, terminated")]
        assert stays in fleet.workloads.by_id
        check_parts(fleet, fleet.state)

    def test_whole_device(self) -> None:
        """Work on a device that is divided is on each of its parts; percent are of the memory of the part."""
        fleet = divided_fleet()
        start(fleet, "all", "70:0:0", metrics={"memory": "50%"})
        advance(fleet, 1)
        assert of_parts(fleet, "usage_ratio") == [0.7] * 3
        assert [part / MIB for part in of_parts(fleet, "memory_used_bytes")] == [200, 100, 50]
        assert loads(fleet) == [70] * 4

    def test_limits_of_workloads(self) -> None:
        """What they are compared with is the part's; what is not its own, the device's."""
        fleet = divided_fleet()
        start(fleet, "dgx-0/1/1", "10:0:0", limits={"usage": 0.5})
        start(fleet, "dgx-0/1/1", "20:0:0", limits={"power": 80})
        advance(fleet, 2)
        assert len(fleet.workloads.by_id) == 2
        start(fleet, "dgx-0/1/0", "90:0:0")
        assert [(code, text) for _, _, code, text in ended(fleet, 2)] == [(1, "Limit power reached, terminated")]

    def test_pods(self) -> None:
        fleet = divided_fleet()
        start(fleet, "dgx-0/1/1", pod="train")
        advance(fleet, 1)
        node = fleet.roster.nodes[0]
        assert [facts["pod"] for facts in fleet.labels.facts(node)] == [""] * 4
        assert [(unit, facts["pod"], facts["mig_id"]) for unit, facts in fleet.labels.part_facts(node)] == [
            (4, "", "1"), (5, "train", "5"), (6, "", "13"),
        ]  # fmt: skip

    def test_names(self) -> None:
        """UUIDs are of version 5, as those of real instances, and do not change when others come."""
        fleet = divided_fleet()
        uuids = [facts["part_uuid"] for _, facts in fleet.labels.part_facts(fleet.roster.nodes[0])]
        assert len(set(uuids)) == 3
        assert {uuid[14] for uuid in uuids} == {"5"}
        other = make_fleet(divided_pool(parts=ROUND_PARTS[1:]))
        assert [facts["part_uuid"] for _, facts in other.labels.part_facts(other.roster.nodes[0])] == uuids[1:]

    def test_throttled(self) -> None:
        fleet = make_fleet(divided_pool(parts=parts_of("3g.20gb", "3g.20gb"), device_type=catalog_type("a100")))
        start(fleet, "dgx-0/1/0", "100:0:0", kind="tensor")
        advance(fleet, 5)
        before = of_parts(fleet, "memory_read_bytes_per_second")[0]
        inject(fleet, kind="power-brake", devices="dgx-0/1")
        advance(fleet, 5)
        assert 0 < of_parts(fleet, "memory_read_bytes_per_second")[0] < 0.7 * before

    def test_no_links(self) -> None:
        for devices, sends in (("dgx-0/1", False), ("dgx-0/0", True)):
            fleet = make_fleet(divided_pool(parts=parts_of("3g.20gb"), device_type=catalog_type("a100")))
            start(fleet, devices, "100:0:0", kind="exchange")
            advance(fleet, 3)
            assert bool(fleet.fabric_tx_bytes_per_second.max() > 0) is sends
        with pytest.raises(Refused):
            start(fleet, "dgx-0/1/0", "0:0:0", metrics={"fabric-tx": "1e9"})


class TestFault:
    def test_xid_on_a_part(self) -> None:
        fleet = divided_fleet()
        gone, stays = start(fleet, "dgx-0/1/0"), start(fleet, "dgx-0/1/1")
        advance(fleet, 2)
        inject(fleet, kind="xid", devices="dgx-0/1/0", code=31)
        assert ended(fleet) == [(3, gone, 1, "XID 31 on dgx-0/1/0, terminated")]
        assert stays in fleet.workloads.by_id
        advance(fleet, 2)
        assert of_parts(fleet, "xid") == [31, 0, 0]
        assert fleet.xid.tolist() == [0] * 4
        assert fleet.programming_errors.tolist() == [0, 1, 0, 0]
        inject(fleet, kind="reset", devices="dgx-0/1/0")
        advance(fleet, 1)
        assert of_parts(fleet, "xid") == [0, 0, 0]

    def test_xid_on_the_device(self) -> None:
        """It is shown for all its parts, and ends the work on each; a device that is lost takes its parts with it."""
        fleet = divided_fleet()
        for part in range(3):
            start(fleet, f"dgx-0/1/{part}")
        other = start(fleet, "dgx-0/0")
        advance(fleet, 1)
        inject(fleet, kind="xid", devices="dgx-0/1", code=48)
        assert len(ended(fleet)) == 3
        assert of_parts(fleet, "xid") == [48] * 3
        assert list(fleet.workloads.by_id) == [other]
        start(fleet, "dgx-0/1/2")
        advance(fleet, 1)
        inject(fleet, kind="lost", devices="dgx-0/1")
        assert [text for *_, text in ended(fleet)] == ["Device dgx-0/1/2 lost, terminated"]
        assert not any(fleet.state.levels["part"].has("power_watts", part) for part in range(3))

    def test_lost_part(self) -> None:
        pool = divided_pool(parts=parts_of("3g.20gb", "3g.20gb"), device_type=catalog_type("a100"))
        fleet = make_fleet(pool)
        gone, stays = (start(fleet, f"dgx-0/1/{part}", "100:0:0", kind="memory") for part in range(2))
        advance(fleet, 3)
        fault = inject(fleet, kind="lost", devices="dgx-0/1/0")
        assert ended(fleet) == [(4, gone, 1, "Device dgx-0/1/0 lost, terminated")]
        level = fleet.state.levels["part"]
        assert [level.has("usage_ratio", part) for part in range(2)] == [False, True]
        assert [level.has("power_watts", part) for part in range(2)] == [False, True]
        assert fleet.lost.tolist() == [0] * 4
        assert of_parts(fleet, "xid") == [0, 0]
        assert [each.text for each in explain(fleet, 4, "usage_ratio")] == [
            f"lost since tick 4: the part shows nothing; cause fault {fault} (lost)"
        ]
        assert stays in fleet.workloads.by_id
        cleared(fleet, fault, 2)
        read = of_parts(fleet, "memory_read_bytes")
        assert read[0] < read[1] / 10
        assert fleet.state.levels["part"].has("usage_ratio", 0)

    def test_of_whole_devices(self) -> None:
        for fields, text in (
            ({"kind": "inlet"}, "inlet affects the whole device, and dgx-0/1/0 is a part: name dgx-0/1"),
            ({"kind": "xid", "code": 79}, "XID 79 affects the whole device, and dgx-0/1/0 is a part: name dgx-0/1"),
        ):
            with pytest.raises(Refused) as caught:
                inject(make_fleet(divided_pool(device_type=catalog_type("a100"))), devices="dgx-0/1/0", **fields)
            assert str(caught.value) == text

    def test_series(self) -> None:
        for devices, wrong in (("dgx-0/1/1", [False, True, False]), ("dgx-0/1", [True] * 3)):
            fleet = divided_fleet()
            advance(fleet, 1)
            inject(fleet, kind="sentinel", devices=devices, metric="memory", value=7)
            advance(fleet, 1)
            seen = fleet.shown.levels["part"].arrays["memory_used_bytes"]
            assert (seen == 7).tolist() == wrong
            assert (fleet.state.levels["part"].arrays["memory_used_bytes"] != 7).all()

    def test_explained(self) -> None:
        """A part's own by its work, the rest by the whole device."""
        fleet = divided_fleet()
        start(fleet, "dgx-0/1/1", "50:0:0", name="own")
        start(fleet, "dgx-0/1/0", "50:0:0", name="other")
        advance(fleet, 1)
        usage, power = (explain(fleet, 5, name)[0].text for name in ("usage_ratio", "power_watts"))
        assert usage == "work: w1 own (compute, load 50 %)"
        assert power.startswith("of the whole device dgx-0/1: ")
        assert "w1 own" in power
        assert "w2 other" in power


class TestReload:
    def test_other_place(self) -> None:
        a100 = catalog_type("a100")
        fleet = make_fleet(divided_pool(parts=parts_of("3g.20gb", "2g.10gb"), device_type=a100))
        stays = start(fleet, "dgx-0/1/1", "100:0:0", kind="memory", pod="p")
        advance(fleet, 3)
        read = of_parts(fleet, "memory_read_bytes")[1]
        three = {index: DeviceSpec(index, parts=parts_of("3g.20gb", "2g.10gb", "1g.5gb")) for index in (0, 1)}
        reload(fleet, pool_of(device_type=a100, devices=three))
        assert ended(fleet) == []
        assert of_parts(fleet, "memory_read_bytes")[4] > read
        assert [fleet.roster.unit_name(int(unit)) for unit in fleet.workloads.by_id[stays].devices] == ["dgx-0/1/1"]
        pods = [facts["pod"] for _, facts in fleet.labels.part_facts(fleet.roster.nodes[0])]
        assert pods == ["", "", "", "", "p", ""]
        check_parts(fleet, fleet.state)

    def test_divided(self) -> None:
        fleet = make_fleet(pool_of())
        first = start(fleet, "dgx-0/1")
        stays = start(fleet, "dgx-0/0")
        advance(fleet, 1)
        reload(fleet, divided_pool())
        assert ended(fleet) == [(2, first, 1, "Device dgx-0/1 is no longer in the fleet, terminated")]
        second = start(fleet, "dgx-0/1/2")
        advance(fleet, 1)
        reload(fleet, pool_of())
        assert ended(fleet) == [(4, second, 1, "Device dgx-0/1/2 is no longer in the fleet, terminated")]
        assert list(fleet.workloads.by_id) == [stays]

    def test_faults_follow(self) -> None:
        fleet = divided_fleet()
        for part in (0, 2):
            inject(fleet, kind="absent", devices=f"dgx-0/1/{part}")
        advance(fleet, 1)
        reload(fleet, divided_pool(parts=ROUND_PARTS[1:]))
        advance(fleet, 1)
        assert list(fleet.faults.by_id) == ["f2"]
        level = fleet.shown.levels["part"]
        assert [level.has("usage_ratio", part) for part in range(2)] == [True, False]


class TestHistory:
    def test_dividing_one_device_changes_nothing_of_the_others(self) -> None:
        fleets = [make_fleet(pool_of()), divided_fleet()]
        for fleet in fleets:
            start(fleet, "dgx-0/0", "50:20:0")
            advance(fleet, 5)
        assert fleets[0].power_watts[[0, 2, 3]].tolist() == fleets[1].power_watts[[0, 2, 3]].tolist()


def shown(fleet: Fleet, level: str, name: str) -> float:
    return float(fleet.state.levels[level].arrays[name][0])


def divided(device: str, profiles: str) -> PoolSpec:
    pool = f"{{name: p, nodes: 1, node-name: p-0, device: {device}, devices-per-node: 1, mig: [{profiles}]}}"
    return load(None, Files(environ={}), text=f"version: 1\nfleet: {{pools: [{pool}]}}\n").fleet.pools[0]


def test_tensor_pipes_of_an_instance() -> None:
    """Full load and all tensor pipes on three of seven slices are three sevenths of the board's usage and power."""
    fleet = make_fleet(divided("a100", "3g.20gb, 3g.20gb"))
    start(fleet, "p-0/0/0", "100:0:0", metrics={"tensor": "100%"})
    advance(fleet, 5)
    assert shown(fleet, "part", "usage_ratio") == 1
    assert shown(fleet, "device", "usage_ratio") == pytest.approx(3 / 7)
    plain = 49 + 311 * (0.084 + 0.916 * 3 / 7)
    assert shown(fleet, "device", "power_watts") == pytest.approx(plain, rel=0.03)


@pytest.mark.parametrize("load", [0, 40, 100])
@pytest.mark.parametrize(
    ("device", "quantities"),
    [
        ("a100", ("tensor",)),
        ("a100", ("memory-bandwidth",)),
        ("a100", ("tensor", "memory-bandwidth", "copy")),
        ("max-1550", ("memory-bandwidth",)),
        ("max-1550", ("memory-bandwidth", "copy")),
    ],
)
def test_a_board_is_what_its_parts_are(device: str, quantities: tuple[str, ...], load: int) -> None:
    if device == "max-1550":
        pool, share = pool_of("p", device_type=catalog_type(device), devices_per_node=1), 1 / 2
    else:
        pool, share = divided(device, "3g.20gb, 3g.20gb"), 3 / 7
    fleet = make_fleet(pool)
    start(fleet, "p-0/0/0", f"{load}:0:0", metrics=dict.fromkeys(quantities, "100%"))
    advance(fleet, 3)
    names = ("usage_ratio", "tensor_active_ratio", "render_active_ratio", "copy_active_ratio", "memory_bandwidth_ratio")
    for name in names:
        if name in fleet.state.levels["part"].arrays:
            of_part = shown(fleet, "part", name)
            assert of_part <= 1
            assert shown(fleet, "device", name) == pytest.approx(share * of_part), name


@pytest.mark.parametrize("device", ["a100", "a100-80", "h100", "h200"])
def test_all_memory(device: str) -> None:
    types = {"a100": "7g.40gb", "a100-80": "7g.80gb", "h100": "7g.80gb", "h200": "7g.141gb"}
    fleet = make_fleet(divided(device.replace("-80", "-80gb"), types[device]))
    start(fleet, "p-0/0/0", "1:0:0", metrics={"memory": "100%"})
    advance(fleet, 2)
    used, free, reserved = (shown(fleet, "device", f"memory_{what}_bytes") for what in ("used", "free", "reserved"))
    assert shown(fleet, "part", "memory_used_bytes") == used
    assert free >= 0
    assert used + free + reserved == shown(fleet, "device", "memory_total_bytes")
