"""Faults of boards: what they move, how long, on whom, and how boards recover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.sim.door import fault_id_of
from fakedev.sim.events import ClearFault
from fakedev.sim.explanation import explain
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import FieldError, Refused
from fakedev.spec.fault_fields import PARAMETERS, fault_from_fields, fields_of_fault
from fakedev.spec.fault_kinds import KINDS
from fakedev.spec.limits import Limits
from fakedev.spec.quantities import ERROR_COUNTERS
from fakedev.wire.fleet_verbs import WORKLOAD_GRAMMAR
from tests.support.faulty_fleets import boards_of, busy, cleared, inject, shown
from tests.support.fleets import advance, ended, make_fleet, start


class TestFields:
    """A fault is described by fields; doc/faults.md says which."""

    def test_the_ports_know_all(self) -> None:
        """The grammar has the kinds and values of the rules, in their order."""
        verb = WORKLOAD_GRAMMAR.find("fault")
        assert " ".join(verb.notes).split()[4:] == list(KINDS)
        assert {each.name for each in verb.options} > set(PARAMETERS)

    @pytest.mark.parametrize("kind", KINDS)
    def test_there_and_back(self, kind: str) -> None:
        """Each kind, with all that it takes, comes out of its fields again."""
        fields: dict[str, object] = {"kind": kind, "devices": ["a/0"], "node": "a", "every": 2.0, "probability": 0.25}
        fields |= {each.name: each.high for each in KINDS[kind].parameters if not each.instead_of}
        if KINDS[kind].takes_metric:
            fields["metric"] = "power"
        assert fields_of_fault(fault_from_fields(fields)) == fields

    @pytest.mark.parametrize(
        ("fields", "where", "text"),
        [
            ({}, "kind", "give one of xid"),
            ({"kind": "xidd", "devices": "all"}, "kind", "did you mean xid"),
            ({"kind": "lost"}, "devices", "say which"),
            ({"kind": "lost", "devices": []}, "devices", "list of device words"),
            ({"kind": "xid", "devices": "all"}, "code", "missing"),
            ({"kind": "xid", "devices": "all", "code": 1.5}, "code", "whole number from 1 to 999"),
            ({"kind": "xid", "devices": "all", "code": True}, "code", "whole number"),
            ({"kind": "lost", "devices": "all", "cod": 3}, "cod", "nothing that the fault lost takes"),
            ({"kind": "lost", "devices": "all", "metric": "power"}, "metric", "nothing that the fault lost takes"),
            ({"kind": "lost", "devices": "all", "duration": "5x"}, "duration", ""),
            ({"kind": "lost", "devices": "all", "probability": 1.1}, "probability", "from 0 to 1"),
            ({"kind": "lost", "devices": "all", "start": -1}, "start", "duration"),
            ({"kind": "pcie-slow", "devices": "all", "width": 3}, "width", "must be one of 0, 1, 2, 4, 8, 16, 32"),
        ],
    )
    def test_what_is_refused(self, fields: dict[str, object], where: str, text: str) -> None:
        """With the field at fault and what would be right."""
        with pytest.raises(FieldError) as caught:
            fault_from_fields(fields)
        assert caught.value.where == where
        assert text in caught.value.text

    @pytest.mark.parametrize(
        ("fields", "where"),
        [
            ({"kind": "lost", "devices": "c/0"}, "devices"),
            ({"kind": "lost", "node": "c"}, "node"),
            ({"kind": "nan", "devices": "all", "metric": "colour"}, "metric"),
            ({"kind": "link-down", "devices": "all"}, "devices"),
            ({"kind": "lost", "devices": "all", "every": 0.5}, "every"),
            ({"kind": "power-cap", "devices": "all", "watts": 351}, "watts"),
            ({"kind": "lost", "devices": "dgx-0/0/link/1"}, "devices"),
        ],
    )
    def test_what_the_fleet_refuses(self, fields: dict[str, object], where: str) -> None:
        """Nothing is changed or recorded then."""
        fleet = make_fleet(boards_of("l40s", nodes=1, devices=2))
        with pytest.raises(Refused) as caught:
            inject(fleet, **fields)
        assert caught.value.where == where
        assert not fleet.faults.by_id
        assert inject(fleet, kind="lost", devices="all") == fault_id_of(1)

    def test_no_more_than_the_most(self) -> None:
        """A fleet takes so many faults."""
        fleet = make_fleet(limits=Limits(faults=3))
        for _ in range(3):
            inject(fleet, kind="reset", devices="all", start=1000)
        with pytest.raises(Refused, match=r"limits\.faults is 3: 1 more are needed, and 0 remain: clear some"):
            inject(fleet, kind="reset", devices="all")


class TestTimes:
    """When a fault is there."""

    def test_from_the_next_tick_until_it_is_cleared(self) -> None:
        """And it recovers with the tick after."""
        fleet = busy()
        fault = inject(fleet, kind="hang", devices="dgx-0/0")
        assert shown(fleet, "hung") == 0
        advance(fleet, 100)
        assert shown(fleet, "hung") == 1
        cleared(fleet, fault)
        assert shown(fleet, "hung") == 0
        assert not fleet.faults.by_id
        with pytest.raises(Refused, match="no fault"):
            fleet.apply(ClearFault(fault))

    def test_start_and_duration(self) -> None:
        """It waits, lasts, and is over, to the tick."""
        fleet = busy(10)
        inject(fleet, kind="hang", devices="dgx-0/0", start=3, duration="2s")
        seen = []
        for _ in range(8):
            fleet.advance()
            seen.append(shown(fleet, "hung"))
        assert seen == [0, 0, 0, 1, 1, 0, 0, 0]
        assert not fleet.faults.by_id

    def test_what_happens_once(self) -> None:
        """It is over at once; with every it happens again."""
        fleet = busy(10)
        inject(fleet, kind="ecc-single", devices="dgx-0/0", count=3)
        inject(fleet, kind="ecc-single", devices="dgx-0/1", every="10s", duration="35s")
        advance(fleet, 2)
        assert len(fleet.faults.by_id) == 1
        advance(fleet, 58)
        assert shown(fleet, "memory_errors_correctable") == 3
        assert shown(fleet, "memory_errors_correctable", 1) == 4
        assert not fleet.faults.by_id

    def test_probability(self) -> None:
        """Each device is drawn separately, each time again; whole nodes together."""
        fleet = make_fleet(boards_of("h100", nodes=50, devices=2))
        inject(fleet, kind="hang", devices="all", probability=0.3, every="5s")
        inject(fleet, kind="node-down", devices="all", probability=0.5, start=1000)
        seen = []
        for _ in range(40):
            fleet.advance()
            seen.append(fleet.hung > 0)
        table = np.array(seen)
        assert 0.2 < table.mean() < 0.4
        assert (table[:5] == table[0]).all()
        assert (table[5] != table[0]).any()
        advance(fleet, 1000)
        down = (fleet.lost > 0).reshape(50, 2)
        assert (down[:, 0] == down[:, 1]).all()
        assert 0 < down.mean() < 1

    @given(st.integers(0, 2**40))
    def test_others_change_nothing(self, seed: int) -> None:
        """The affected devices follow from seed, fault and device, not from other devices."""
        small = make_fleet(boards_of("h100", nodes=2, devices=2), seed=seed)
        large = make_fleet(boards_of("h100", nodes=4, devices=2), seed=seed)
        for fleet in (small, large):
            inject(fleet, kind="hang", devices="all", probability=0.5)
            advance(fleet, 3)
        assert (small.hung == large.hung[:4]).all()

    def test_the_configuration_has_some(self) -> None:
        """They have separate ids."""
        spec = fault_from_fields({"kind": "lost", "devices": "dgx-0/1"})
        fleet = make_fleet(boards_of("h100", nodes=1, devices=2), faults=(spec,))
        advance(fleet, 1)
        assert fleet.lost.tolist() == [0, 1]
        (fault_id,) = fleet.faults.by_id
        cleared(fleet, fault_id)
        assert fleet.lost.tolist() == [0, 0]


class TestBoards:
    """What each kind does to a board, and how it comes back; the others are as without it."""

    def recovered(self, fleet: Fleet) -> None:
        """The first two boards are alike again, but for what is counted and how they differ from the start."""
        for name in ("usage_ratio", "core_frequency_mhz", "power_watts", "temperature_celsius"):
            assert shown(fleet, name) == pytest.approx(shown(fleet, name, 1), rel=0.05), name

    def test_air(self) -> None:
        """Warm air heats, throttles, and is over in the end."""
        fleet = busy(200)
        before, inlet = shown(fleet, "temperature_celsius"), shown(fleet, "inlet_temperature_celsius")
        fault = inject(fleet, kind="inlet", devices="dgx-0/0", celsius=32)
        advance(fleet, 200)
        assert shown(fleet, "inlet_temperature_celsius") == pytest.approx(inlet + 32)
        assert shown(fleet, "temperature_celsius") > before + 20
        assert shown(fleet, "throttled_thermal_seconds") > 0
        assert shown(fleet, "core_frequency_mhz") < shown(fleet, "core_frequency_mhz", 1)
        cleared(fleet, fault, 300)
        self.recovered(fleet)

    def test_too_hot(self) -> None:
        """Air that is far too warm shuts the board down for good, until it is reset."""
        fleet = busy(200)
        fault = inject(fleet, kind="inlet", devices="dgx-0/0", celsius=80)
        advance(fleet, 100)
        assert fleet.lost.tolist() == [1, 0, 0, 0, 0, 0, 0, 0]
        cleared(fleet, fault, 5)
        assert shown(fleet, "lost") == 1
        inject(fleet, kind="reset", devices="dgx-0/0")
        advance(fleet, 1)
        assert shown(fleet, "lost") == 0
        assert 70 < shown(fleet, "temperature_celsius") < 95 - 6
        advance(fleet, 100)
        assert shown(fleet, "temperature_celsius") < 45

    @pytest.mark.parametrize(
        ("kind", "values", "reason"),
        [
            ("power-brake", {}, 0x88), ("power-cap", {"watts": 300}, 0x4), ("clock-lock", {"megahertz": 900}, 0x2),
            ("sync-boost", {"share": 0.5}, 0x10),
        ],
    )
    def test_what_takes_clock_away(self, kind: str, values: dict[str, float], reason: int) -> None:
        """Clock and power fall, NVML's mask has the reason; all comes back."""
        fleet = busy()
        fault = inject(fleet, kind=kind, devices="dgx-0/0", **values)
        advance(fleet, 30)
        assert shown(fleet, "core_frequency_mhz") < shown(fleet, "core_frequency_mhz", 1)
        assert shown(fleet, "power_watts") < 350
        assert int(shown(fleet, "throttle_reasons")) == reason
        cleared(fleet, fault, 300)
        self.recovered(fleet)

    @pytest.mark.parametrize("name", ["h100", "h200", "a100", "a100-80gb", "v100", "l40s", "t4"])
    def test_overheat_lasts(self, name: str) -> None:
        """The hardware's thermal slowdown lasts, and every NVIDIA board is warm enough for the usual 85 degrees."""
        fleet = busy(name=name)
        fault = inject(fleet, kind="overheat", devices="dgx-0/0")
        advance(fleet, 300)
        heated = shown(fleet, "throttled_hardware_heat_seconds")
        for _ in range(300):
            fleet.advance()
            assert shown(fleet, "temperature_celsius") > 86
            assert int(shown(fleet, "throttle_reasons")) == 0x48
        assert shown(fleet, "throttled_hardware_heat_seconds") == heated + 300
        assert "overheats" in explain(fleet, 0, "temperature_celsius")[0].text
        cleared(fleet, fault, 300)
        assert shown(fleet, "throttled_hardware") == 0
        assert shown(fleet, "temperature_celsius") == pytest.approx(shown(fleet, "temperature_celsius", 1), rel=0.1)

    def test_overheat_to_a_temperature(self) -> None:
        """Between the limits the driver throttles, by its relation; past the last one the board shuts down."""
        fleet = busy()
        inject(fleet, kind="overheat", devices="dgx-0/0", celsius=88)
        advance(fleet, 600)
        assert shown(fleet, "temperature_celsius") == pytest.approx(88, abs=0.1)
        assert shown(fleet, "throttled_thermal") == 1
        assert 800 < shown(fleet, "core_frequency_mhz") < 1500
        inject(fleet, kind="overheat", devices="dgx-0/0", celsius=97)
        advance(fleet, 100)
        assert [shown(fleet, name) for name in ("lost", "xid")] == [1, 79]

    def test_sync_boost_counts(self) -> None:
        """Only while the board works."""
        fleet = busy()
        fault = inject(fleet, kind="sync-boost", devices="dgx-0/0", share=0.5)
        advance(fleet, 10)
        assert shown(fleet, "throttled_sync_boost_seconds") == 10
        assert "group that boosts together" in explain(fleet, 0, "core_frequency_mhz")[0].text
        cleared(fleet, fault, 10)
        assert shown(fleet, "throttled_sync_boost_seconds") == 10

    @pytest.mark.parametrize(
        ("kind", "values", "counter"),
        [
            ("programming-errors", {}, "programming_errors"),
            ("driver-errors", {}, "driver_errors"),
            ("cache-errors", {}, "cache_errors_correctable"),
            ("cache-errors", {"uncorrectable": 1}, "cache_errors_uncorrectable"),
            ("non-compute-errors", {}, "non_compute_errors_correctable"),
            ("non-compute-errors", {"uncorrectable": 1}, "non_compute_errors_uncorrectable"),
        ],
    )
    def test_errors_of_any_vendor(self, kind: str, values: dict[str, float], counter: str) -> None:
        """Each category of errors counts, also where there are no XIDs; the work goes on."""
        fleet = busy(name="max-1550")
        inject(fleet, kind=kind, devices="dgx-0/0", count=3, **values)
        advance(fleet, 2)
        counted = {name for name in ERROR_COUNTERS if shown(fleet, name)}
        assert (counted, shown(fleet, counter)) == ({counter}, 3)
        assert shown(fleet, "usage_ratio") == 1

    def test_resets_count(self) -> None:
        """Those that are asked for, and those with which lost boards return."""
        fleet = busy()
        inject(fleet, kind="reset", devices="dgx-0/0")
        lost = inject(fleet, kind="lost", devices="dgx-0/1")
        advance(fleet, 2)
        cleared(fleet, lost, 2)
        assert [shown(fleet, "resets", board) for board in range(3)] == [1, 1, 0]

    def test_what_the_driver_advises(self) -> None:
        """A reset, or the end of the work first; nothing after it."""
        fleet = busy()
        for board, fields in enumerate(({"kind": "xid", "code": 119}, {"kind": "ecc-double"}, {"kind": "hang"})):
            inject(fleet, devices=f"dgx-0/{board}", duration="5s", **fields)
        advance(fleet, 2)
        assert [shown(fleet, "recovery_action", board) for board in range(4)] == [1, 4, 1, 0]
        assert "end the work" in explain(fleet, 1, "recovery_action")[0].text
        advance(fleet, 10)
        inject(fleet, kind="reset", devices="dgx-0/1")
        advance(fleet, 2)
        assert [shown(fleet, "recovery_action", board) for board in range(4)] == [0, 0, 0, 0]

    def test_a_cap_above_the_limit(self) -> None:
        """Boards with a driver that would refuse it do not change."""
        fleet = make_fleet(boards_of("h100", devices=1), boards_of("l40s", devices=1))
        inject(fleet, kind="power-cap", devices="all", watts=500)
        advance(fleet, 1)
        assert fleet.power_limit_watts.tolist() == [500, 350]

    def test_fan(self) -> None:
        """A stopped fan does not turn, and the board gets hot."""
        fleet = make_fleet(boards_of("intel-dg1", nodes=1, devices=2))
        start(fleet, "all", "100:0:0")
        advance(fleet, 100)
        fault = inject(fleet, kind="fan", devices="dgx-0/0", resistance=1.2)
        advance(fleet, 60)
        assert shown(fleet, "temperature_celsius") > shown(fleet, "temperature_celsius", 1) + 4
        cleared(fleet, fault, 300)
        assert shown(fleet, "temperature_celsius") == pytest.approx(shown(fleet, "temperature_celsius", 1), rel=0.1)

    def test_links(self) -> None:
        """Traffic stops, the error is counted and reported."""
        fleet = busy(3)
        start(fleet, "all", "0:0:0", metrics={"fabric-tx": "50%", "pcie-tx": "90%"})
        advance(fleet, 3)
        usual = shown(fleet, "pcie_tx_bytes_per_second")
        down = inject(fleet, kind="link-down", devices="dgx-0/0")
        slow = inject(fleet, kind="pcie-slow", devices="dgx-0/0", share=0.25)
        inject(fleet, kind="pcie-replays", devices="dgx-0/0", rate=2.5)
        advance(fleet, 4)
        assert shown(fleet, "fabric_tx_bytes_per_second") == 0
        assert shown(fleet, "pcie_tx_bytes_per_second") < usual / 3
        assert [shown(fleet, name) for name in ("link_errors", "xid", "pcie_replays")] == [1, 74, 10]
        cleared(fleet, down)
        cleared(fleet, slow)
        assert shown(fleet, "fabric_tx_bytes_per_second") > 0
        assert shown(fleet, "pcie_tx_bytes_per_second") == usual
        assert shown(fleet, "link_errors") == 1

    @pytest.mark.parametrize(
        ("device", "moved"),
        [
            ("h100", {"memory_errors_uncorrectable": 2, "remapped_rows_uncorrectable": 2, "row_remap_pending": 1}),
            ("v100", {"memory_errors_uncorrectable": 2, "retired_pages_double_bit": 2}),
        ],
    )
    def test_double_bit(self, device: str, moved: dict[str, float]) -> None:
        """Work ends; boards since Ampere remap rows, older ones retire pages."""
        fleet = make_fleet(boards_of(device, nodes=1, devices=2))
        start(fleet, "all", "50:0:0")
        advance(fleet, 2)
        inject(fleet, kind="ecc-double", devices="dgx-0/0", count=2)
        assert ended(fleet) == [(3, "w1", 1, "XID 48 on dgx-0/0, terminated")]
        level = fleet.state.levels["device"]
        names = ("memory_errors_uncorrectable", "remapped_rows_uncorrectable", "retired_pages_double_bit",
                 "row_remap_pending")  # fmt: skip
        assert {name: shown(fleet, name) for name in names if level.has(name, 0)} == moved
        assert shown(fleet, "xid") == 48
        assert shown(fleet, "xid", 1) == 0

    @pytest.mark.parametrize("code", [13, 31, 43, 45, 48, 61, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 999])
    def test_xids(self, code: int) -> None:
        """Every code is reported; those that end work do, once."""
        fleet = busy(3)
        fault = inject(fleet, kind="xid", devices="dgx-0/1", code=code)
        ends = ended(fleet)
        gone = code == 79
        why = "Device dgx-0/1 lost" if gone else f"XID {code} on dgx-0/1"
        told = [] if code in (63, 64, 74, 92, 999) else [(1, f"{why}, terminated")]
        assert [each[2:] for each in ends] == told
        assert shown(fleet, "xid", 1) == code
        assert (shown(fleet, "lost", 1) == 1) == gone
        assert (fault in fleet.faults.by_id) == (code in (61, 62, 74, 79, 95, 119, 120))
        inject(fleet, kind="reset", devices="all")
        for each in list(fleet.faults.by_id):
            fleet.apply(ClearFault(each))
        advance(fleet, 2)
        assert not fleet.faults.by_id
        assert shown(fleet, "lost", 1) == 0

    def test_work_on_a_dead_board(self) -> None:
        """It ends in its first tick, as long as the board is dead."""
        fleet = busy(3)
        inject(fleet, kind="xid", devices="dgx-0/1", code=95, duration="10s")
        advance(fleet, 2)
        work = start(fleet, "dgx-0/1")
        assert ended(fleet) == [(6, work, 1, "XID 95 on dgx-0/1, terminated")]
        assert shown(fleet, "usage_ratio", 1) == 0
        advance(fleet, 10)
        start(fleet, "dgx-0/1")
        assert ended(fleet, 5) == []
        assert shown(fleet, "usage_ratio", 1) == 0.5

    def test_lost_and_back(self) -> None:
        """It shows nothing, its counters restart at 0, its errors stay; it has cooled down while it was off."""
        fleet = busy()
        inject(fleet, kind="ecc-single", devices="dgx-0/0", count=7)
        advance(fleet, 1)
        warm, inlet = (shown(fleet, f"{name}temperature_celsius") for name in ("", "inlet_"))
        fault = inject(fleet, kind="lost", devices="dgx-0/0")
        advance(fleet, 10)
        level = fleet.state.levels["device"]
        assert [name for name in level.arrays if level.has(name, 0)] == ["xid", "lost"]
        assert shown(fleet, "xid") == 79
        cleared(fleet, fault)
        assert shown(fleet, "energy_joules") == pytest.approx(shown(fleet, "power_watts"))
        assert shown(fleet, "created_seconds") == shown(fleet, "created_seconds", 1) + fleet.state.seconds - 1
        assert shown(fleet, "memory_errors_correctable") == 7
        cooled = inlet + (warm - inlet) * math.exp(-10 / 17)
        assert shown(fleet, "temperature_celsius") == pytest.approx(cooled, abs=1)

    def test_without_dynamics(self) -> None:
        """Such a device can be lost, and comes back."""
        fleet = make_fleet()
        fault = inject(fleet, kind="lost", devices="dgx-0/1")
        advance(fleet, 1)
        level = fleet.state.levels["device"]
        assert [level.has("power_watts", device) for device in range(4)] == [True, False, True, True]
        cleared(fleet, fault)
        assert fleet.state.levels["device"].has("power_watts", 1)

    def test_several_at_once(self) -> None:
        """Clearing one of two that take the same away leaves the other."""
        fleet = busy(5)
        one = inject(fleet, kind="lost", devices="dgx-0/0")
        other = inject(fleet, kind="node-down", node="dgx-0")
        advance(fleet, 3)
        cleared(fleet, one, 3)
        assert fleet.lost.tolist() == [1] * 4 + [0] * 4
        cleared(fleet, other)
        assert not fleet.lost.any()
