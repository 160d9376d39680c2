"""Faults of boards: what they move, how boards recover, and what they are the cause of."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fakedev.fleet.events import ClearFaults
from fakedev.fleet.explanation import explain
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.quantities import ERROR_COUNTERS
from tests.support.fleet.faulty_fleets import boards_of, busy, cleared, inject, shown
from tests.support.fleet.fleets import advance, ended, labels_of, make_fleet, start, stop


class TestBoards:
    def recovered(self, fleet: Fleet) -> None:
        """The first two boards are alike again, but for what is counted and how they differ from the start."""
        for name in ("usage_ratio", "core_frequency_mhz", "power_watts", "temperature_celsius"):
            assert shown(fleet, name) == pytest.approx(shown(fleet, name, 1), rel=0.05), name

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("name", "fields"),
        [("h100", {"kind": "inlet", "celsius": 32}), ("intel-dg1", {"kind": "fan", "resistance": 1.2})],
    )
    def test_what_heats(self, name: str, fields: dict[str, object]) -> None:
        """Warm air, or a stopped fan: the board gets hot, perhaps throttles, and all is over in the end."""
        fleet = busy(200, name)
        before, inlet = shown(fleet, "temperature_celsius"), shown(fleet, "inlet_temperature_celsius")
        fault = inject(fleet, devices="dgx-0/0", **fields)
        advance(fleet, 200)
        assert shown(fleet, "temperature_celsius") > before + 4
        if fields["kind"] == "inlet":
            assert shown(fleet, "inlet_temperature_celsius") == pytest.approx(inlet + 32)
            assert shown(fleet, "throttled_thermal_seconds") > 0
            assert shown(fleet, "core_frequency_mhz") < shown(fleet, "core_frequency_mhz", 1)
        cleared(fleet, fault, 300)
        self.recovered(fleet)

    @pytest.mark.slow
    def test_too_hot(self) -> None:
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

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("kind", "values", "reason"),
        [
            ("power-brake", {}, 0x88), ("power-cap", {"watts": 300}, 0x4), ("clock-lock", {"megahertz": 900}, 0x2),
            ("sync-boost", {"share": 0.5}, 0x10),
        ],
    )
    def test_what_takes_clock_away(self, kind: str, values: dict[str, float], reason: int) -> None:
        """Clock and power fall, NVML's mask has the reason; all comes back. Sync boost counts only while it holds."""
        fleet = busy()
        fault = inject(fleet, kind=kind, devices="dgx-0/0", **values)
        advance(fleet, 30)
        assert shown(fleet, "core_frequency_mhz") < shown(fleet, "core_frequency_mhz", 1)
        assert shown(fleet, "power_watts") < 350
        assert int(shown(fleet, "throttle_reasons")) == reason
        if kind == "sync-boost":
            assert "group that boosts together" in explain(fleet, 0, "core_frequency_mhz")[0].text
        cleared(fleet, fault, 300)
        self.recovered(fleet)
        assert shown(fleet, "throttled_sync_boost_seconds") == (30 if kind == "sync-boost" else 0)

    @pytest.mark.slow
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

    @pytest.mark.slow
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
        fleet = busy(name="max-1550")
        inject(fleet, kind=kind, devices="dgx-0/0", count=3, **values)
        advance(fleet, 2)
        counted = {name for name in ERROR_COUNTERS if shown(fleet, name)}
        assert (counted, shown(fleet, counter)) == ({counter}, 3)
        assert shown(fleet, "usage_ratio") == 1

    def test_resets_count(self) -> None:
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

    def test_links(self) -> None:
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
        ("device", "fault", "traffic"),
        [
            ("h100", {"kind": "pcie-slow", "share": 0.5}, ("pcie-tx", "pcie-rx")),
            ("h100", {"kind": "link-down", "share": 0.5}, ("fabric-tx", "fabric-rx")),
            ("mi300x", {"kind": "link-down", "link": 0}, ("fabric-tx", "fabric-rx")),
            ("h100", {"kind": "xid", "code": 74}, ("fabric-tx", "fabric-rx")),
        ],
    )
    def test_a_limit_is_a_cause_where_it_binds(
        self, device: str, fault: dict[str, object], traffic: tuple[str, ...]
    ) -> None:
        """A link that lost capacity is the cause of traffic only where the work demands more than is left."""
        fleet = make_fleet(boards_of(device, devices=4))
        broken = inject(fleet, devices="dgx-0/0", **fault)
        kinds = [f"{name.replace('-', '_')}_bytes_per_second" for name in traffic]

        def blamed() -> list[bool]:
            fleet.advance()
            return [broken in explain(fleet, 0, kind)[0].faults for kind in kinds]

        assert blamed() == [False, False], "no work, no traffic"
        if "share" in fault:
            light = start(fleet, "all", "0:0:0", metrics=dict.fromkeys(traffic, "20%"))
            assert blamed() == [False, False]
            stop(fleet, light)
        start(fleet, "all", "0:0:0", metrics=dict.fromkeys(traffic, "90%"))
        assert blamed() == [True, True]
        if "pcie-tx" not in traffic:
            assert broken in explain(fleet, 0, "links_up")[0].faults, "whether it binds or not"
        assert broken not in explain(fleet, 0, "power_watts")[0].faults

    def test_a_slow_pcie_link_is_the_cause_of_what_it_lowers(self) -> None:
        """Of lanes or of the generation, and not of the generation that an idle board has anyway."""
        fleet = make_fleet(boards_of("l4"))
        start(fleet, "dgx-0/0", "100:0:0")
        lanes = inject(fleet, kind="pcie-slow", devices="all", width=8)
        slow = inject(fleet, kind="pcie-slow", devices="all", generation=3)
        fleet.advance()
        assert lanes in explain(fleet, 0, "pcie_link_width")[0].faults
        assert slow in explain(fleet, 0, "pcie_link_generation")[0].faults
        assert explain(fleet, 1, "pcie_link_generation")[0].faults == (), "it is idle"

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
        fleet = busy(3)
        fault = inject(fleet, kind="xid", devices="dgx-0/1", code=code)
        ends = ended(fleet)
        gone = code == 79
        why = "Device dgx-0/1 lost" if gone else f"XID {code} on dgx-0/1"
        told = [] if code in (63, 64, 74, 92, 999) else [(1, f"{why}, terminated")]
        assert [end[2:] for end in ends] == told
        assert shown(fleet, "xid", 1) == code
        assert (shown(fleet, "lost", 1) == 1) == gone
        assert (fault in fleet.faults.by_id) == (code in (61, 62, 74, 79, 95, 119, 120))
        inject(fleet, kind="reset", devices="all")
        for each in list(fleet.faults.by_id):
            fleet.apply(ClearFaults((each,)))
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

    def test_several_at_once(self) -> None:
        fleet = busy(5)
        one = inject(fleet, kind="lost", devices="dgx-0/0")
        other = inject(fleet, kind="node-down", node="dgx-0")
        advance(fleet, 3)
        cleared(fleet, one, 3)
        assert fleet.lost.tolist() == [1] * 4 + [0] * 4
        cleared(fleet, other)
        assert not fleet.lost.any()


def test_labels_of_work_that_is_over_stay_until_the_fault_is() -> None:
    fleet = make_fleet()
    work = start(fleet, "card0,card1", pod="gone")
    advance(fleet, 1)
    fault = inject(fleet, kind="stale-labels", devices="dgx-0/0")
    advance(fleet, 1)
    stop(fleet, work)
    advance(fleet, 1)
    assert labels_of(fleet, "dgx-0", ["pod"])[:2] == [("gone",), ("",)]
    start(fleet, "card0", pod="new")
    advance(fleet, 1)
    cleared(fleet, fault)
    assert labels_of(fleet, "dgx-0", ["pod"])[:2] == [("new",), ("",)]


def test_the_journal_tells_causes_apart() -> None:
    """Devices that show the same from one tick on, for different faults or for none, are separate entries."""
    fleet = make_fleet(boards_of("h100", devices=4))
    for devices in ("dgx-0/0,dgx-0/2", "dgx-0/1"):
        inject(fleet, kind="lost", devices=devices)
    advance(fleet, 1)
    assert [(each.scope, each.cause) for each in fleet.journal.last(9, ("lost",))] == [
        ("dgx-0/0, dgx-0/2", "f1"), ("dgx-0/1", "f2"),
    ]  # fmt: skip
    cleared(fleet, "f1", 1)
    inject(fleet, kind="inlet", devices="dgx-0/3", celsius=5)
    start(fleet, "all", "100:0:0", kind="tensor")
    advance(fleet, 30)
    began = [(each.scope, each.cause) for each in fleet.journal.last(99, ("throttled_power",))]
    assert all(cause in ("", "f3") for _, cause in began)
    assert {cause for scope, cause in began if "dgx-0/3" in scope} == {""}, "heat does not lower the power limit"


def test_many_faults_are_looked_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An explanation looks at all faults in one calculation: with the same outcome as one by one."""
    fleet = busy(2)
    for number in range(200):
        kind = ("fan", "xid", "stale-labels", "lost")[number % 4]
        code = {"code": 79} if kind == "xid" else {}
        inject(fleet, kind=kind, devices=f"dgx-{number // 4 % 2}/{number % 3}", probability=0.5, every="2s", **code)
    advance(fleet, 3)
    faults = fleet.faults
    for unit in range(fleet.roster.device_count):
        near = faults.near(unit)
        assert near.now == [each for each in faults.by_id.values() if unit in each.concerned]
        assert near.changed == [change.fault for change in faults.changes if unit in change.devices]
    calls: list[int] = []
    owner = fleet.roster.parts.owner
    monkeypatch.setattr(type(fleet.roster.parts), "owner", lambda parts, unit: calls.append(unit) or owner(unit))
    explain(fleet, 1)
    assert len(calls) < 20


def behind(fleet: Fleet, device: int, metric: str) -> tuple[str, ...]:
    return explain(fleet, device, metric)[0].faults


class TestCauses:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("harmless", "harmful"),
        [
            ({"kind": "fan", "resistance": 1.1}, {"kind": "fan", "resistance": 8}),
            ({"kind": "inlet", "celsius": 2}, {"kind": "inlet", "celsius": 60}),
            ({"kind": "power-cap", "watts": 700}, {"kind": "power-cap", "watts": 250}),
            ({"kind": "clock-lock", "megahertz": 1980}, {"kind": "clock-lock", "megahertz": 900}),
        ],
    )
    def test_what_lowers_the_clock(self, harmless: dict[str, object], harmful: dict[str, object]) -> None:
        fleet = make_fleet(boards_of("h100", devices=3))
        start(fleet, "dgx-0/[0-1]", "90:0:0")
        inject(fleet, devices="dgx-0/0", **harmless)
        found = inject(fleet, devices="dgx-0/[1-2]", **harmful)
        advance(fleet, 300)
        for metric in ("core_frequency_mhz", "power_watts", "usage_ratio", "memory_used_bytes", "xid"):
            assert behind(fleet, 0, metric) == behind(fleet, 2, metric) == (), metric
        assert behind(fleet, 1, "core_frequency_mhz") == behind(fleet, 1, "power_watts") == (found,)
        assert behind(fleet, 1, "usage_ratio") == ()

    def test_other_faults_of_the_same_board(self) -> None:
        """A stopped fan that is not hot yet is not behind the brake's slowdown; a hang changes no memory."""
        fleet = busy()
        inject(fleet, kind="fan", devices="all", resistance=1.1)
        brake = inject(fleet, kind="power-brake", devices="dgx-0/0")
        hang = inject(fleet, kind="hang", devices="dgx-0/1")
        advance(fleet, 5)
        assert behind(fleet, 0, "core_frequency_mhz") == (brake,)
        assert {each.cause for each in fleet.journal.last(9, ("throttled_hardware",))} == {brake}
        assert behind(fleet, 1, "usage_ratio") == (hang,)
        assert behind(fleet, 1, "memory_used_bytes") == behind(fleet, 1, "xid") == ()

    def test_all_that_follows_when_heat_shuts_a_board_down(self) -> None:
        fleet = make_fleet(boards_of("h100"), tick_seconds=5)
        start(fleet, "dgx-0/0", "100:0:0", kind="tensor")
        start(fleet, "dgx-0/1", "100:0:0", kind="tensor")
        fan = inject(fleet, kind="fan", devices="dgx-0/[0-1]", resistance=30)
        advance(fleet, 1)
        gone = inject(fleet, kind="lost", devices="dgx-0/1")
        advance(fleet, 60)
        found = {(each.kind, each.scope): each.cause for each in fleet.journal.last(99, ("lost", "xid", "ended"))}
        assert found == {
            ("lost", "dgx-0/0"): fan, ("xid", "dgx-0/0"): fan, ("ended", "w1"): fan,
            ("lost", "dgx-0/1"): gone, ("xid", "dgx-0/1"): gone, ("ended", "w2"): gone,
        }  # fmt: skip
        assert behind(fleet, 0, "usage_ratio") == (fan,)
        assert behind(fleet, 1, "usage_ratio") == (gone,)

    def test_a_board_that_is_gone_reports_nothing(self) -> None:
        """A driver cannot see errors of a board that has fallen off the bus."""
        fleet = busy()
        lost = inject(fleet, kind="lost", devices="dgx-0/0")
        advance(fleet, 2)
        inject(fleet, kind="xid", code=31, devices="dgx-0/[0-1]")
        inject(fleet, kind="ecc-double", devices="dgx-0/0")
        advance(fleet, 2)
        assert fleet.xid.tolist()[:2] == [79, 31]
        assert not fleet.row_remap_pending.any()
        assert not any(report.code == 48 and len(report.devices) for report in fleet.reports)
        cleared(fleet, lost)
        inject(fleet, kind="xid", code=31, devices="dgx-0/0")
        advance(fleet, 1)
        assert fleet.xid.tolist()[:2] == [31, 31]


@pytest.mark.slow
def test_many_faults_of_one_board_stay_finite() -> None:
    """Each multiplies the resistance of its air."""
    fleet = make_fleet(boards_of("h100", nodes=1, devices=1))
    for _ in range(400):
        inject(fleet, kind="fan", devices="all", resistance=8)
    advance(fleet, 60)
    level = fleet.state.levels["device"]
    assert all(np.isfinite(level.arrays[name]).all() for name in ("temperature_celsius", "power_watts", "usage_ratio"))
    assert level.arrays["temperature_celsius"][0] > 40  # an idle board, without any cooling
