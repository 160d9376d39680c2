"""Faults of boards: what they move, and how boards recover."""

from __future__ import annotations

import math

import pytest

from fakedev.sim.events import ClearFault
from fakedev.sim.explanation import explain
from fakedev.sim.fleet import Fleet
from fakedev.spec.quantities import ERROR_COUNTERS
from tests.support.faulty_fleets import boards_of, busy, cleared, inject, shown
from tests.support.fleets import advance, ended, make_fleet, start


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
