"""How a board answers to work: what it keeps busy, clocks, power and heat."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from fakedev.base.errors import Refused
from fakedev.fleet.spec.device_types import Range
from fakedev.fleet.spec.work_kinds import WORK_KINDS, WorkKind
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.fleets import advance, make_fleet, pool_of, start, stop
from tests.support.fleet.round_board import DYNAMICS, ROUND, board, under


class TestIdle:
    def test_from_the_start(self) -> None:
        fleet = board()
        advance(fleet, 3)
        for name, value in (
            ("power_watts", 100), ("core_frequency_mhz", 300), ("temperature_celsius", 40), ("throttled_power", 0),
            ("memory_temperature_celsius", 45), ("throttled_thermal", 0), ("power_limit_watts", 600),
        ):  # fmt: skip
            assert getattr(fleet, name).tolist() == [value] * 4, name

    @pytest.mark.slow
    def test_after_work(self) -> None:
        fleet = under("compute")
        stop(fleet, "w1")
        advance(fleet, 1)
        assert fleet.usage_ratio[0] == 0
        assert 100 < fleet.power_watts[0] < 130
        assert fleet.temperature_celsius[0] > 75
        advance(fleet, 2)
        assert fleet.core_frequency_mhz[0] == 300
        assert fleet.power_watts[0] == 100
        advance(fleet, 600)
        assert fleet.temperature_celsius[0] == pytest.approx(40, abs=1e-6)

    @pytest.mark.slow
    @pytest.mark.parametrize("fall", [1, 3, 4, 10])
    def test_clocks_fall_within_clock_fall_seconds(self, fall: int) -> None:
        """In a straight line, shown in steps of 10 MHz; the last one is in the tick in which the time is over."""
        fleet = under("compute", clock_fall_seconds=fall)
        stop(fleet, "w1")
        clocks = []
        for _ in range(fall):
            fleet.advance()
            clocks.append(fleet.core_frequency_mhz[0])
        assert clocks == [(1300 - 1000 * n / fall + 1e-6) // 10 * 10 for n in range(1, fall + 1)]
        assert clocks[-1] == pytest.approx(300)

    @pytest.mark.parametrize(("name", "idle", "busy"), [("l40s", 405, 9001), ("t4", 405, 5001), ("h100", 2619, 2619)])
    def test_memory_clock(self, name: str, idle: float, busy: float) -> None:
        """A GDDR board drops it when the core clock is idle; an HBM board, whose range has no width, keeps it."""
        fleet = board(catalog_type(name))
        start(fleet, profile="1:0:2")
        shown = []
        for ticks in (0, 1, 2, 5):
            advance(fleet, ticks)
            shown.append(fleet.memory_frequency_mhz[0])
        assert shown == [idle, busy, busy, idle]


class TestHeat:
    @pytest.mark.parametrize(
        ("quantity", "seconds", "low", "dynamics"),
        [
            ("temperature_celsius", 25, 40, {}),
            ("memory_temperature_celsius", 40, 45, {}),
            ("temperature_celsius", 5, 40, {"thermal_seconds": 5}),
            ("memory_temperature_celsius", 10, 45, {"memory_thermal_seconds": 10}),
        ],
    )
    def test_a_lag_of_the_first_order(
        self, quantity: str, seconds: int, low: float, dynamics: dict[str, float]
    ) -> None:
        """After one time constant 1 - 1/e of the way is done, after two of the rest."""
        fleet = board(**dynamics)
        start(fleet, profile="100:0:0")
        for constants in (1, 2, 3):
            advance(fleet, seconds)
            assert getattr(fleet, quantity)[0] == pytest.approx(low + 40 * (1 - math.exp(-constants)))

    @pytest.mark.slow
    @pytest.mark.parametrize("tick_seconds", [0.1, 1.0, 7.0, 60.0])
    def test_ticks_of_another_length(self, tick_seconds: float) -> None:
        fleet = board(tick_seconds=tick_seconds)
        start(fleet, profile="60:0:0")
        advance(fleet, round(420 / tick_seconds))
        assert fleet.power_watts[0] == pytest.approx(100 + 400 * (0.06 + 0.94 * 0.6))
        level = 40 + 0.1 * (fleet.power_watts[0] - 100)
        assert fleet.temperature_celsius[0] == pytest.approx(level - (level - 40) * math.exp(-420 / 25))


class TestKindsOfWork:
    @pytest.mark.slow
    def test_what_they_keep_busy(self) -> None:
        """The table of doc/simulation.md: usage, tensor pipes, memory bandwidth, PCIe, power at full load."""
        found = {}
        for kind in WORK_KINDS:
            fleet = under(kind, power_limit_watts=1000, slowdown_celsius=200, resume_celsius=190)
            names = ("usage_ratio", "tensor_active_ratio", "memory_bandwidth_ratio", "pcie_tx_bytes_per_second")
            found[kind] = [round(float(getattr(fleet, name)[0]), 3) for name in (*names, "power_watts")]
        assert found == {
            "compute": [1, 0.5, 0.1, 1e6, 500],
            "tensor": [1, 0.93, 0.35, 1e3, pytest.approx(124 + 376 * 1.4)],
            "training": [1, 0.46, 0.4, 1e3, pytest.approx(124 + 376 * 1.4)],
            "memory": [1, 0.02, 0.92, 1e3, pytest.approx(124 + 376 * 0.35)],
            "transfer": [0.1, 0, 0.05, 8e9 + 1e3, 124 + 376 * 0.12],
            "exchange": [1, 0, 0.3, 1e3, 124 + 376 * 0.25],
            "encode": [0.1, 0, 0.05, 1e3, 124 + 376 * 0.15],
            "decode": [0.05, 0, 0.05, 1e3, 124 + 376 * 0.1],
            "render": [1, 0, 0.3, 1e3, pytest.approx(124 + 376 * 0.9)],
        }

    @pytest.mark.parametrize(("kind", "power"), [("memory", 0.35), ("compute", 1)])
    @pytest.mark.parametrize("load", [1, 25, 99])
    def test_power_grows_in_a_straight_line(self, kind: str, power: float, load: float) -> None:
        assert under(kind, load, 2).power_watts[0] == pytest.approx(124 + 376 * power * load / 100)

    def test_several_on_one_device(self) -> None:
        fleet = board(power_limit_watts=1000)
        for kind, load in (("tensor", 40), ("memory", 16)):
            start(fleet, profile=f"{load}:0:0", kind=kind)
        advance(fleet, 2)
        assert fleet.usage_ratio[0] == pytest.approx(0.56)
        assert fleet.tensor_active_ratio[0] == pytest.approx(0.93 * 0.4 + 0.02 * 0.16)
        assert fleet.power_watts[0] == pytest.approx(124 + 376 * (1.4 * 0.4 + 0.35 * 0.16))
        for _ in range(2):
            start(fleet, profile="72:0:0", kind="tensor")
        advance(fleet, 2)
        assert fleet.usage_ratio[0] == 1
        assert fleet.tensor_active_ratio[0] == pytest.approx(0.93 * 0.92 + 0.02 * 0.08)

    def test_the_link_is_full(self) -> None:
        """PCIe traffic ends at what the link carries; a type that does not say that has its own range only."""
        kinds = {"copy": WorkKind(plain=1, transfer=1)}
        full = replace(ROUND, dynamics=replace(DYNAMICS, kinds=kinds))
        for link, shown in ((1e10, 1e10), (5e5, 1e6), (0, 1e6)):
            fleet = board(full, pcie_bytes_per_second=link)
            start(fleet, profile="100:0:0", kind="copy")
            advance(fleet, 1)
            assert fleet.pcie_tx_bytes_per_second[0] == shown

    def test_two_workloads_of_a_kind_are_as_one(self) -> None:
        """Their loads add up before anything else, also where the power is not linear in them."""
        kinds = {**WORK_KINDS, "odd": WorkKind(power_exponent=0.5)}
        shown = []
        for loads in ((10, 30), (40,)):
            fleet = board(replace(ROUND, dynamics=replace(DYNAMICS, kinds=kinds)))
            for load in loads:
                start(fleet, profile=f"{load}:0:0", kind="odd")
            advance(fleet, 2)
            shown.append(fleet.power_watts[0])
        assert shown[0] == pytest.approx(shown[1])

    def test_kinds_of_a_types_own(self) -> None:
        """A type adds some, or changes those that are there; on other types an added kind only holds a context."""
        own = {**WORK_KINDS, "video": WorkKind(usage=0.3, power=0.5), "memory": WorkKind(power=2.0)}
        odd = replace(ROUND, dynamics=replace(DYNAMICS, kinds=own, power_limit_watts=2000))
        fleet = make_fleet(pool_of("odd", device_type=odd), pool_of("dgx", device_type=ROUND))
        start(fleet, "odd-0/0,dgx-0/0", "100:0:0", kind="video")
        start(fleet, "odd-0/1,dgx-0/1", "100:0:0", kind="memory")
        advance(fleet, 2)
        assert fleet.usage_ratio.tolist() == [0.3, 1, 0, 0, 0, 1, 0, 0]
        expected = [124 + 188, 124 + 752, 100, 100, 124, 124 + 376 * 0.35, 100, 100]
        assert fleet.power_watts == pytest.approx(expected)

    @pytest.mark.parametrize(
        ("kind", "told"),
        [
            ("tensr", "no kind of work 'tensr'; did you mean tensor?"),
            ("zzz", f"no kind of work 'zzz': give one of {', '.join(sorted(WORK_KINDS))}"),
        ],
    )
    def test_an_unknown_kind_is_refused(self, kind: str, told: str) -> None:
        fleet = board()
        with pytest.raises(Refused) as refused:
            start(fleet, kind=kind)
        assert (refused.value.code, refused.value.text) == ("unknown-name", told)
        assert fleet.intake.starting_count == 0

    def test_usage_within_its_range(self) -> None:
        """A type whose usage does not go from 0 to 1 shows its own ends, and is idle at the lower one."""
        narrow = replace(ROUND, ranges={**ROUND.ranges, "usage_ratio": Range(0.1, 0.9)})
        fleet = make_fleet(pool_of(device_type=narrow))
        start(fleet, profile="100:0:0")
        advance(fleet, 1)
        assert fleet.usage_ratio.tolist() == [0.9, 0.1, 0.1, 0.1]
        assert fleet.core_frequency_mhz.tolist() == [1300, 300, 300, 300]


def test_direct_boards_take_every_kind_as_plain_load() -> None:
    fleet = make_fleet()
    for kind, load in (("memory", 30), ("tensor", 30), ("compute", 90)):
        start(fleet, "card0", f"{load}:0:0", kind=kind)
    start(fleet, "card1", "50:0:0", kind="memory")
    advance(fleet, 1)
    assert fleet.power_watts == pytest.approx([250, 150, 50, 50])
    assert (fleet.power_watts <= 250).all()
