"""What a board has besides cores and heat: engines, traffic, memory power, hangs, fans, limits of the hardware."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import DeviceType, Range
from tests.support.fleet.faulty_fleets import boards_of
from tests.support.fleet.fleets import advance, ended, make_fleet, pool_of, start, stop
from tests.support.fleet.round_board import DYNAMICS, ROUND, board

NOTHING = Range(0, 0)
#: The round board with all that a board may have.
FULL = replace(
    ROUND,
    ranges={
        **ROUND.ranges,
        **{f"{name}_active_ratio": NOTHING for name in ("copy", "encoder", "decoder", "render")},
        "fabric_tx_bytes_per_second": NOTHING,
        "fabric_rx_bytes_per_second": NOTHING,
        "memory_power_watts": Range(30, 60),
        "fan_speed_ratio": Range(0.3, 0.8),
    },
    dynamics=replace(DYNAMICS, fabric_bytes_per_second=4e11, memory_bytes_per_second=1e12, idle_performance_state=8.0),
)


def busy(
    seconds: int = 1, device_type: DeviceType = FULL, dynamics: dict[str, float] | None = None, **fields: object
) -> Fleet:
    fleet = board(device_type, **(dynamics or {}))
    start(fleet, **fields)
    advance(fleet, seconds)
    return fleet


def shown(fleet: Fleet, *names: str) -> list[float]:
    return [round(float(getattr(fleet, name)[0]), 6) for name in names]


ENGINES = tuple(f"{name}_active_ratio" for name in ("tensor", "copy", "encoder", "decoder", "render"))


class TestEngines:
    @pytest.mark.parametrize(
        ("kind", "usage", "engines"),
        [
            ("compute", 0.5, [0.25, 0, 0, 0, 0]),
            ("transfer", 0.05, [0, 0.4, 0, 0, 0]),
            ("encode", 0.05, [0, 0, 0.5, 0, 0]),
            ("decode", 0.025, [0, 0, 0, 0.5, 0]),
            ("render", 0.5, [0, 0, 0, 0, 0.5]),
        ],
    )
    def test_kinds_of_work(self, kind: str, usage: float, engines: list[float]) -> None:
        fleet = busy(profile="50:0:0", kind=kind)
        assert shown(fleet, "usage_ratio", *ENGINES) == [usage, *engines]

    def test_what_is_asked_comes_on_top(self) -> None:
        fleet = busy(profile="40:0:0", metrics={"tensor": 0.3, "encoder": 0.6})
        assert shown(fleet, "usage_ratio", *ENGINES) == [0.7, 0.5, 0, 0.6, 0, 0]
        start(fleet, profile="0:0:0", metrics={"tensor": 0.9})
        advance(fleet, 1)
        assert shown(fleet, "usage_ratio", "tensor_active_ratio") == [1, 1]

    def test_copy_engines_move_data(self) -> None:
        copies, transfer = busy(profile="0:0:0", metrics={"copy": 0.4}), busy(profile="50:0:0", kind="transfer")
        moved = ("pcie_tx_bytes_per_second", "pcie_rx_bytes_per_second", "memory_read_bytes_per_second")
        assert shown(copies, "copy_active_ratio", *moved) == shown(transfer, "copy_active_ratio", *moved)
        assert copies.pcie_tx_bytes_per_second[1] == 1e3
        told = busy(profile="0:0:0", metrics={"copy": 0.4, "pcie-tx": 1e6})
        assert shown(told, *moved[:2]) == [1e6 + 1e3, 1e3]

    def test_media_alone_raises_the_clock_and_draws(self) -> None:
        asked, kind = busy(profile="0:0:0", metrics={"decoder": 1}), busy(profile="100:0:0", kind="decode")
        assert shown(asked, "usage_ratio", "core_frequency_mhz") == [0, 1300]
        assert shown(asked, "power_watts") == shown(kind, "power_watts")
        assert shown(asked, "power_watts") == [124 + 376 * 0.1]


class TestTraffic:
    def test_links(self) -> None:
        fleet = busy(10, profile="50:0:0", kind="exchange")
        assert shown(fleet, "fabric_tx_bytes_per_second", "fabric_rx_bytes_per_second") == [1.6e11, 1.6e11]
        assert shown(fleet, "fabric_tx_bytes", "fabric_rx_bytes") == [1.6e12, 1.6e12]

    def test_one_way(self) -> None:
        fleet = busy(profile="0:0:0", metrics={"fabric-tx": 1e11, "pcie-rx": 5e9})
        assert shown(fleet, "fabric_tx_bytes_per_second", "fabric_rx_bytes_per_second") == [1e11, 0]
        assert shown(fleet, "pcie_rx_bytes_per_second", "pcie_tx_bytes_per_second") == [5e9 + 1e3, 1e3]

    @pytest.mark.parametrize(("kind", "reads"), [("compute", 0.067), ("memory", 0.46), ("decode", 0.0165)])
    def test_reads_and_writes(self, kind: str, reads: float) -> None:
        fleet = busy(profile="100:0:0", kind=kind)
        read, write = shown(fleet, "memory_read_bytes_per_second", "memory_write_bytes_per_second")
        assert read == pytest.approx(reads * 1e12)
        assert read + write == pytest.approx(1e12 * fleet.memory_bandwidth_ratio[0])
        assert shown(fleet, "memory_read_bytes") == [read]

    def test_a_throttled_clock_lowers_it(self) -> None:
        for kind, sensitivity in (("compute", 1.0), ("memory", 0.1), ("transfer", 0.0)):
            free = busy(30, profile="100:0:0", kind=kind)
            slow = busy(30, profile="100:0:0", kind=kind, dynamics={"power_limit_watts": 140})
            assert slow.core_frequency_mhz[0] < 1300
            pace = 1 - sensitivity * (1 - slow.core_frequency_mean_mhz[0] / 1300)
            for name in ("memory_bandwidth_ratio", "pcie_tx_bytes_per_second"):
                low = ROUND.ranges[name].low
                ratio = (getattr(slow, name)[0] - low) / max(getattr(free, name)[0] - low, 1e-9)
                assert ratio == pytest.approx(pace if getattr(free, name)[0] > low else 0), (kind, name)

    def test_the_memory_clock_follows_it(self) -> None:
        """A process that holds a context keeps it up, and without one links that carry something do."""
        fleet = busy(20, profile="0:0:10", dynamics={"clock_fall_seconds": 1})
        assert shown(fleet, "memory_frequency_mhz") == [405]
        start(fleet, profile="0:0:0", metrics={"fabric-rx": 1e9})
        advance(fleet, 1)
        assert shown(fleet, "memory_frequency_mhz") == [9000]


class TestMemoryPower:
    @pytest.mark.parametrize(("load", "watts"), [(0, 30), (25, 37.5), (100, 60)])
    def test_linear_in_the_bandwidth(self, load: int, watts: float) -> None:
        assert shown(busy(profile=f"{load}:0:0"), "memory_power_watts") == [watts]

    def test_never_more_than_the_board_has_over_idle(self) -> None:
        wide = replace(FULL, ranges={**FULL.ranges, "memory_power_watts": Range(90, 490)})
        fleet = busy(30, wide, {"power_limit_watts": 105}, profile="100:0:0", kind="memory")
        assert fleet.memory_power_watts[0] == pytest.approx(90 + fleet.power_watts[0] - 100)


class TestHang:
    def test_it_looks_busy_and_does_nothing(self) -> None:
        fleet = busy(5, profile="30:0:0", kind="transfer", metrics={"hung": 1})
        assert shown(fleet, "hung", "usage_ratio", "core_frequency_mhz", *ENGINES) == [1, 1, 1300, 0, 0, 0, 0, 0]
        assert shown(fleet, "pcie_tx_bytes_per_second", "memory_bandwidth_ratio") == [0, 0]
        assert shown(fleet, "power_watts") == [124 + 376 * 0.06]

    def test_work_does_not_get_on(self) -> None:
        fleet = board(FULL)
        start(fleet, profile="100:0:10", seconds_of="work")
        start(fleet, profile="0:0:0", metrics={"hung": "0:0:3,1:0:5,0:0:0"})
        assert [tick for tick, *_ in ended(fleet, 30)] == [15]


class TestHardware:
    def test_slowdown(self) -> None:
        """From its own limit on half of the clock is gone at once, until the core is under the limit of the driver."""
        lone = replace(FULL, dynamics=replace(DYNAMICS, without=("thermal-throttle",)))
        fleet = board(lone, slowdown_celsius=60, resume_celsius=55, hardware_slowdown_celsius=61)
        start(fleet, profile="100:0:0")
        slowed, found = False, []
        for _ in range(100):
            celsius = fleet.temperature_celsius[0]
            slowed = bool(celsius >= 61 or (slowed and celsius >= 55))
            fleet.advance()
            assert (fleet.throttled_hardware[0] == 1) == slowed
            if slowed:
                assert shown(fleet, "core_frequency_mhz", "throttle_reasons") == [650, 0x48]
            found.append(slowed)
        assert found.count(True) > 10
        assert found.count(False) > 10

    def test_shutdown(self) -> None:
        fleet = board(FULL, slowdown_celsius=190, shutdown_celsius=70, resume_celsius=60)
        start(fleet, profile="100:0:0")
        start(fleet, "card1", "20:0:0")
        found = ended(fleet, 60)
        assert [(code, text) for _, _, code, text in found] == [(1, "Device dgx-0/0 lost, terminated")]
        level = fleet.state.levels["device"]
        assert fleet.lost.tolist() == [1, 0, 0, 0]
        assert [name for name in level.arrays if level.has(name, 0)] == ["xid", "lost"]
        assert (level.arrays["xid"].tolist(), level.has("power_watts", 1)) == ([79, 0, 0, 0], True)
        energy = fleet.energy_joules[0]
        advance(fleet, 100)
        assert fleet.energy_joules[0] == energy
        assert fleet.lost[0] == 1

    @pytest.mark.slow
    def test_the_fan(self) -> None:
        fleet = board(FULL, fan_seconds=10)
        assert shown(fleet, "fan_speed_ratio") == [0.3]
        start(fleet, profile="100:0:0")
        advance(fleet, 10)
        behind = 0.3 + 0.5 * (fleet.temperature_celsius[0] - 40) / 40
        assert 0.3 < fleet.fan_speed_ratio[0] < behind
        advance(fleet, 600)
        assert shown(fleet, "fan_speed_ratio") == [0.8]

    def test_the_performance_state(self) -> None:
        fleet = busy(profile="1:0:1")
        assert shown(fleet, "performance_state") == [0]
        assert fleet.performance_state.tolist()[1:] == [8, 8, 8]
        advance(fleet, 5)
        assert shown(fleet, "performance_state") == [8]
        assert "performance_state" not in board().quantity_names()

    @pytest.mark.parametrize(
        ("kind", "state", "memory"), [("compute", 2, 8500), ("memory", 2, 8500), ("render", 0, 9000)]
    )
    def test_the_state_of_compute_work(self, kind: str, state: float, memory: float) -> None:
        """A type may have another one for work that is no graphics, with another memory clock."""
        fleet = busy(kind=kind, dynamics={"compute_performance_state": 2.0, "compute_memory_mhz": 8500.0})
        assert shown(fleet, "performance_state", "memory_frequency_mhz") == [state, memory]
        assert fleet.performance_state[1] == 8


class TestBoardsOfOneType:
    @pytest.mark.slow
    def test_spread(self) -> None:
        wide = replace(FULL, dynamics=replace(DYNAMICS, spread=0.1, power_limit_watts=1000))
        fleet = make_fleet(pool_of(device_type=wide, devices_per_node=200))
        idle = fleet.power_watts.copy()
        start(fleet, "all", "100:0:0")
        advance(fleet, 600)
        for values, mean, span in ((idle, 100, 10), (fleet.power_watts - idle, 400, 40)):
            assert np.abs(values - mean).max() <= span
            assert np.ptp(values) > 1.8 * span
        assert np.ptp(fleet.temperature_celsius) > 4
        few = make_fleet(pool_of(device_type=wide, devices_per_node=3))
        assert few.power_watts.tolist() == idle[:3].tolist()

    def test_inlet(self) -> None:
        pool = pool_of(device_type=FULL, inlet_celsius=20.0)
        cold, usual = make_fleet(pool), make_fleet(pool_of(device_type=FULL))
        assert shown(usual, "inlet_temperature_celsius", "temperature_celsius") == [30, 40]
        for name, fallen in (("inlet", 10), ("", 10), ("memory", 10)):
            quantity = f"{name}_temperature_celsius".removeprefix("_")
            assert getattr(usual, quantity) - getattr(cold, quantity) == pytest.approx([fallen] * 4), quantity


class TestLeftOut:
    @pytest.mark.parametrize(
        ("without", "dynamics", "fields", "expected"),
        [
            ("hang", {}, {"profile": "40:0:0", "metrics": {"hung": 1}}, {"usage_ratio": 0.4, "hung": 1}),
            ("power-limit", {"power_limit_watts": 150}, {}, {"power_watts": 500, "power_limit_watts": 150}),
            ("thermal-throttle", {"slowdown_celsius": 50, "resume_celsius": 45}, {}, {"core_frequency_mhz": 1300}),
            ("hardware-slowdown", {"hardware_slowdown_celsius": 50.0}, {}, {"core_frequency_mhz": 1300}),
            ("shutdown", {"shutdown_celsius": 50.0}, {}, {"lost": 0, "power_watts": 500}),
            ("slowing", {"power_limit_watts": 150}, {}, {"memory_bandwidth_ratio": 0.1}),
        ],
    )
    def test_with_work(
        self, without: str, dynamics: dict[str, float], fields: dict[str, object], expected: dict[str, float]
    ) -> None:
        fields = {"profile": "100:0:0"} | fields
        left_out = replace(FULL, dynamics=replace(DYNAMICS, without=(without,)))
        fleet = busy(100, left_out, dynamics, **fields)
        assert dict(zip(expected, shown(fleet, *expected), strict=True)) == expected
        usual = busy(100, FULL, dynamics, **fields)
        assert shown(usual, *expected) != list(expected.values())

    def test_clocks_that_do_not_rest(self) -> None:
        left_out = replace(FULL, dynamics=replace(DYNAMICS, without=("core-clock", "memory-clock")))
        fleet = busy(1, left_out, profile="50:0:0")
        stop(fleet, "w1")
        advance(fleet, 10)
        assert shown(fleet, "core_frequency_mhz", "memory_frequency_mhz") == [1300, 9000]

    def test_no_lags(self) -> None:
        lags = ("power_limit", "clock_fall", "thermal", "memory_thermal", "fan")
        at_once = {f"{name}_seconds": 0.0 for name in lags}
        fleet = busy(1, FULL, at_once, profile="100:0:0")
        names = ("temperature_celsius", "memory_temperature_celsius", "fan_speed_ratio")
        assert shown(fleet, *names) == [80, 85, 0.8]
        stop(fleet, "w1")
        advance(fleet, 1)
        assert shown(fleet, "core_frequency_mhz", *names) == [300, 40, 45, 0.3]
        fleet = busy(1, FULL, at_once | {"power_limit_watts": 300}, profile="100:0:0")
        assert fleet.power_watts[0] == pytest.approx(300, abs=0.01)


def moved(name: str, load: str = "0:0:0", kind: str = "compute", **metrics: str) -> Fleet:
    fleet = make_fleet(boards_of(name, nodes=1, devices=1))
    asked = {key.replace("_", "-"): value for key, value in metrics.items()}
    start(fleet, "all", load, kind=kind, metrics=asked)
    advance(fleet, 5)
    return fleet


@pytest.mark.parametrize("name", ["h100", "a100", "t4", "v100", "l40s", "mi300x", "max-1550"])
def test_pcie(name: str) -> None:
    """Received bytes are written, sent bytes are read; the share of the bandwidth follows."""
    fleet = moved(name, pcie_rx="8GB/s", pcie_tx="4GB/s")
    assert fleet.memory_write_bytes_per_second[0] == pytest.approx(8e9)
    assert fleet.memory_read_bytes_per_second[0] == pytest.approx(4e9)
    assert fleet.memory_bandwidth_ratio[0] * fleet.memory_max_bytes_per_second[0] == pytest.approx(12e9)


def test_links_beside_other_traffic() -> None:
    """Traffic of work includes that of the links, as far as there is enough of it; what they bring is written."""
    plain, copies = moved("h100", "100:0:0"), moved("h100", "100:0:0", pcie_rx="8GB/s")
    assert copies.memory_bandwidth_ratio[0] == plain.memory_bandwidth_ratio[0]
    alone, receiving = moved("h100", "10:0:0", "memory"), moved("h100", "10:0:0", "memory", fabric_rx="400GB/s")
    assert receiving.memory_read_bytes_per_second[0] == pytest.approx(alone.memory_read_bytes_per_second[0])
    assert alone.memory_write_bytes_per_second[0] < 400e9 == pytest.approx(receiving.memory_write_bytes_per_second[0])
    assert moved("h100", fabric_tx="100GB/s").memory_read_bytes_per_second[0] == pytest.approx(100e9)
