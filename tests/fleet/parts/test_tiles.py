"""Tiles of boards: what is theirs, what the board makes of it, work, faults and reloads; and how pages show them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fakedev.config.sample_page import sample_page
from fakedev.fleet.explanation import explain
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.parts.tiles import tiles_of
from fakedev.fleet.spec.fleet_spec import PoolSpec
from tests.support.examples import examples
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.faulty_fleets import cleared, inject
from tests.support.fleet.fleets import BOARD, MIB, advance, ended, make_fleet, pool_of, reload, start, stop

GIB = 1024 * MIB
#: What is a board's by its tiles: the sum of theirs, or the mean.
SUMS = (
    "power_watts", "energy_joules", "memory_used_bytes", "memory_total_bytes", "memory_read_bytes",
    "cache_errors_correctable", "memory_errors_uncorrectable",
)  # fmt: skip
MEANS = ("usage_ratio", "memory_bandwidth_ratio", "temperature_celsius", "memory_temperature_celsius")


def max_1550(devices: int = 2, **more: Any) -> PoolSpec:
    return pool_of(device_type=catalog_type("max-1550"), devices_per_node=devices, **more)


def tiles(fleet: Fleet, name: str) -> list[float]:
    return [round(value, 6) for value in fleet.state.levels["tile"].arrays[name].tolist()]


def boards(fleet: Fleet, name: str) -> list[float]:
    return [round(value, 6) for value in fleet.state.levels["device"].arrays[name].tolist()]


def check_tiles(fleet: Fleet, *, without: tuple[str, ...] = ()) -> None:
    """What holds of boards of two tiles and their tiles in every tick, but for boards that lack one.

    :param without: quantities that are not looked at.
    """
    parts, device, tile = fleet.roster.parts, *(fleet.state.levels[name] for name in ("device", "tile"))
    for name, values in tile.arrays.items():
        assert np.isfinite(values).all(), name
        assert (values >= 0).all() or name == "temperature_margin_celsius", name

    def folded(name: str) -> Any:
        return np.bincount(parts.owners, tile.arrays[name], parts.device_count)

    are_there = parts.is_tiled & (folded("lost") == 0)
    for name in set(SUMS) - set(without):
        assert np.allclose(folded(name)[are_there], device.arrays[name][are_there], rtol=1e-9, atol=1e-6), name
    for name in MEANS:
        assert np.allclose(folded(name)[are_there] / 2, device.arrays[name][are_there], atol=1e-9), name
    clocks = np.zeros(parts.device_count)
    np.maximum.at(clocks, parts.owners, tile.arrays["core_frequency_mhz"])
    assert np.allclose(clocks[are_there], device.arrays["core_frequency_mhz"][are_there])


class TestTile:
    @pytest.mark.slow
    def test_work_on_one(self) -> None:
        fleet = make_fleet(max_1550())
        idle = tiles(fleet, "temperature_celsius")[0]
        start(fleet, "dgx-0/0/1", "80:0:0")
        advance(fleet, 300)
        assert tiles(fleet, "usage_ratio") == [0, 0.8, 0, 0]
        assert boards(fleet, "usage_ratio") == [0.4, 0]
        assert tiles(fleet, "core_frequency_mhz") == [300, 1600, 300, 300]
        assert boards(fleet, "core_frequency_mhz") == [1600, 300]
        assert tiles(fleet, "throttled_idle") == [1, 0, 1, 1]
        cold, warm, *_ = tiles(fleet, "temperature_celsius")
        assert idle + 1 < cold < warm - 3
        least, most, *_ = tiles(fleet, "power_watts")
        assert least == round(min(boards(fleet, "power_watts")[0], fleet.power_watts[0]) - most, 6)
        assert most > 3 * least
        check_tiles(fleet)

    def test_the_clock_falls_when_work_ends(self) -> None:
        """Of the tile as of a board: 1300 MHz in 3 s, in steps of 50; and so does the heat, tens of seconds long."""
        fleet = make_fleet(max_1550(1))
        work = start(fleet, "dgx-0/0/0", "100:0:0")
        start(fleet, "dgx-0/0/1", "100:0:0")
        advance(fleet, 100)
        stop(fleet, work)
        clocks, heats = [], []
        for _ in range(5):
            fleet.advance()
            clocks.append(tiles(fleet, "core_frequency_mhz")[0])
            heats.append(tiles(fleet, "temperature_celsius")[0])
            check_tiles(fleet)
        assert [round(clock) for clock in clocks] == [1150, 700, 300, 300, 300]
        assert heats == sorted(heats, reverse=True)
        assert tiles(fleet, "core_frequency_mhz")[1] == 1600

    def test_work_on_a_board(self) -> None:
        """It is on all tiles, and what it asks for by amount is the board's; shares are of each tile."""
        fleet = make_fleet(max_1550())
        errors = {"memory": "8GiB", "pcie-tx": "10GB/s", "cache_errors_correctable": "0.5"}
        start(fleet, "dgx-0/0", "50:0:0", metrics=errors)
        start(fleet, "dgx-0/1/0", "50:0:0", metrics={"memory": "8GiB"})
        advance(fleet, 60)
        assert tiles(fleet, "usage_ratio") == [0.5, 0.5, 0.5, 0]
        assert tiles(fleet, "memory_used_bytes") == [4 * GIB, 4 * GIB, 8 * GIB, 0]
        assert tiles(fleet, "cache_errors_correctable") == [15, 15, 0, 0]
        # What plain load brings is beside it.
        assert 10e9 < fleet.pcie_tx_bytes_per_second[0] < 10.1e9
        check_tiles(fleet)

    def test_copies_on_a_board_and_named_traffic_on_a_tile(self) -> None:
        """The work on the tile names the traffic of the board's link: the copies on the board bring none."""
        fleet = make_fleet(max_1550())
        start(fleet, "dgx-0/0", "100:0:0", kind="render", metrics={"copy": "60%"})
        advance(fleet, 1)
        check_tiles(fleet)
        start(fleet, "dgx-0/0/1", "100:0:0", kind="encode", metrics={"pcie_rx": "62%"})
        advance(fleet, 2)
        check_tiles(fleet)
        for name in ("memory_read_bytes_per_second", "memory_write_bytes_per_second"):
            assert sum(tiles(fleet, name)[:2]) == pytest.approx(boards(fleet, name)[0], rel=1e-9)

    def test_shares_and_measured_capability(self) -> None:
        """Half of the memory is half of each tile's; all tiles together are as able as the board that was measured."""
        fleet = make_fleet(max_1550(3))
        start(fleet, "dgx-0/0", "100:0:0", metrics={"memory": "50%", "pcie-rx": "50%"})
        advance(fleet, 2)
        assert boards(fleet, "memory_used_ratio")[0] == 0.5
        assert 0.5 <= fleet.pcie_rx_bytes_per_second[0] / 63e9 < 0.51
        for devices in ("dgx-0/1", "dgx-0/2/0"):
            start(fleet, devices, "100:0:10", repeat=1, seconds_of="work", measured_capability=839)
        assert [(tick, code) for tick, _, code, _ in ended(fleet, 30)] == [(12, 0), (22, 0)]

    def test_without_dynamics(self) -> None:
        """Tiles of a type that follows the load directly: power and memory add up, the clock is the board's."""
        kind = replace(BOARD, tiles=tiles_of(4, BOARD.memory_total_bytes))
        fleet = make_fleet(pool_of(device_type=kind, devices_per_node=1))
        start(fleet, "dgx-0/0/2", "100:0:0")
        advance(fleet, 3)
        assert tiles(fleet, "usage_ratio") == [0, 0, 1, 0]
        assert tiles(fleet, "power_watts") == [12.5, 12.5, 62.5, 12.5]
        assert boards(fleet, "power_watts") == [100]
        assert tiles(fleet, "core_frequency_mhz") == boards(fleet, "core_frequency_mhz") * 4

    def test_a_board_of_one_piece_has_none(self) -> None:
        assert tiles_of(1, 8.0 * GIB) == ()
        fleet = make_fleet(pool_of(device_type=catalog_type("flex-170")))
        assert (fleet.state.levels["tile"].count, fleet.roster.parts.is_tiled.any()) == (0, False)


class TestFault:
    def test_errors_of_the_memory(self) -> None:
        """Of a tile they are its own; of the board they fall on its tiles in turn; both are the board's."""
        fleet = make_fleet(max_1550())
        inject(fleet, kind="ecc-single", devices="dgx-0/0/1", count=3)
        inject(fleet, kind="ecc-double", devices="dgx-0/1")
        advance(fleet, 2)
        assert tiles(fleet, "memory_errors_correctable") == [0, 3, 0, 0]
        assert boards(fleet, "memory_errors_correctable") == [3, 0]
        assert tiles(fleet, "memory_errors_uncorrectable") == [0, 0, 0, 1]
        inject(fleet, kind="ecc-double", devices="dgx-0/1")
        inject(fleet, kind="ecc-double", devices="dgx-0/0/0")
        advance(fleet, 2)
        assert tiles(fleet, "memory_errors_uncorrectable") == [1, 0, 1, 1]
        assert boards(fleet, "row_remap_pending") == [1, 1]
        check_tiles(fleet)

    def test_a_tile_that_is_lost(self) -> None:
        """Shows nothing and ends the work on it, while its neighbour works on; it comes back as from a reset."""
        fleet = make_fleet(max_1550(1))
        start(fleet, "dgx-0/0/0", "50:0:0", name="a")
        start(fleet, "dgx-0/0/1", "50:0:0", name="b")
        advance(fleet, 3)
        energy = tiles(fleet, "energy_joules")
        (_, neighbour) = tiles(fleet, "temperature_celsius")
        fault = inject(fleet, kind="lost", devices="dgx-0/0/0")
        assert [text for *_, text in ended(fleet)] == ["Device dgx-0/0/0 lost, terminated"]
        level = fleet.state.levels["tile"]
        assert [level.has("power_watts", tile) for tile in (0, 1)] == [False, True]
        assert boards(fleet, "usage_ratio") == [0.25]
        advance(fleet, 3)
        assert abs(tiles(fleet, "temperature_celsius")[1] - neighbour) < 2
        cleared(fleet, fault, 1)
        assert abs(tiles(fleet, "temperature_celsius")[0] - neighbour) < 2
        advance(fleet, 4)
        assert tiles(fleet, "usage_ratio") == [0, 0.5]
        first, second = tiles(fleet, "energy_joules")
        assert first < energy[0]
        assert second > energy[1]

    def test_explanations(self) -> None:
        fleet = make_fleet(max_1550(1))
        start(fleet, "dgx-0/0/1", "100:0:0", name="b")
        advance(fleet, 5)
        units = fleet.roster.parts.of(0)
        (idle,), (busy,) = (explain(fleet, unit, "core_frequency_mhz") for unit in units)
        assert (idle.value, idle.text) == (300, "dgx-0/0 shows 1600: no work on this tile")
        assert busy.value == 1600
        assert "nothing holds it" in busy.text
        (limit,) = explain(fleet, units[0], "power_limit_watts")
        assert limit.text.startswith("of the whole device dgx-0/0")


class TestReload:
    def test_reload(self) -> None:
        fleet = make_fleet(max_1550(1))
        start(fleet, "dgx-0/0/1", "100:0:0", metrics={"cache_errors_correctable": "1"})
        advance(fleet, 60)
        names = ("energy_joules", "temperature_celsius", "cache_errors_correctable", "core_frequency_mhz")
        before = [tiles(fleet, name) for name in names]
        reload(fleet, max_1550(2))
        fleet.advance()
        after = [tiles(fleet, name) for name in names]
        for had, has in zip(before, after, strict=True):
            assert all(old <= new < old * 1.1 + 400 for old, new in zip(had, has[:2], strict=True)), (had, has)
        assert after[2][2:] == [0, 0]
        assert after[0][2] < 100
        check_tiles(fleet)


_ERRORS = ("ecc-single", "ecc-double")
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.sampled_from(["0", "1", "0/0", "0/1", "1/1", "*/0", "*"]), st.integers(0, 100),
                  st.sampled_from(["compute", "memory", "tensor", "transfer", "exchange"])),
        st.tuples(st.just("stop")),
        st.tuples(st.just("fault"), st.sampled_from(["0", "1", "0/1", "1/0"]), st.sampled_from(_ERRORS)),
        st.tuples(st.just("cap"), st.sampled_from(["0", "1"])),
        st.tuples(st.just("lost"), st.sampled_from(["0", "1/0", "1/1"])),
    ),
    max_size=12,
)  # fmt: skip


@settings(deadline=None, max_examples=examples(40))
@given(_STEPS)
def test_the_board_is_its_tiles(steps: list[tuple[Any, ...]]) -> None:
    """Through random work, faults and caps on boards and tiles: sums, means and the highest clock are the board's.

    A tile that was lost counts energy and traffic from 0 again; its board does not.
    """
    fleet = make_fleet(max_1550())
    anew = ("energy_joules", "memory_read_bytes") if any(step[0] == "lost" for step in steps) else ()
    running: list[str] = []
    for step in steps:
        match step:
            case ("start", devices, load, kind):
                asked = {"memory": "3GiB", "cache_errors_correctable": "0.7"}
                running.append(start(fleet, f"dgx-0/{devices}", f"{load}:0:0", kind=kind, metrics=asked))
            case ("stop",) if running and running[0] in fleet.workloads.by_id:
                stop(fleet, running.pop(0))
            case ("fault", devices, kind):
                inject(fleet, kind=kind, devices=f"dgx-0/{devices}", count=2)
            case ("cap", devices):
                inject(fleet, kind="power-cap", devices=f"dgx-0/{devices}", watts=250, duration=5)
            case ("lost", devices):
                inject(fleet, kind="lost", devices=f"dgx-0/{devices}", duration=4)
        advance(fleet, 3)
        check_tiles(fleet, without=anew)
    advance(fleet, 9)
    assert (fleet.state.levels["tile"].arrays["temperature_celsius"] > 20).all()


class TestPage:
    def rows(self, identity: str, device: str, family: str) -> list[str]:
        page = sample_page(identity, device)[1]
        lines = [line for line in page.splitlines() if line.startswith(f"{family}{{") and "card1" in line]
        told = [re.findall(r'(src|sub_dev|location|type)="(\w+)"', line) for line in lines]
        return [" ".join(value for _, value in sorted(each)) for each in told]

    @pytest.mark.slow
    def test_xpumanager(self) -> None:
        """Each tile and the mean; a board of one piece has one row, and its pod is on all rows."""
        for family, device, expected in (
            ("xpum_engine_ratio", "max-1550", ["avg", "direct 0", "direct 1"]),
            ("xpum_engine_ratio", "flex-170", ["direct"]),
            ("xpum_resets_total", "max-1550", ["sum"]),
            ("xpum_power_watts", "max-1550", ["direct"]),
        ):
            assert self.rows("xpumanager", device, family) == expected
        lines = sample_page("xpumanager", "max-1550")[1].splitlines()
        with_pod = [line for line in lines if 'kube_pod="train-0"' in line]
        assert len(with_pod) == len([line for line in lines if 'dev_file="card1"' in line])

    @pytest.mark.slow
    def test_collectd(self) -> None:
        """Power of the board and of each tile, all else of tiles; a board of one piece has no sub_dev."""
        assert self.rows("collectd", "max-1550", "collectd_gpu_sysman_power_watts") == ["", "0", "1"]
        clocks = self.rows("collectd", "max-1550", "collectd_gpu_sysman_frequency_mhz")
        assert {row.partition(" ")[2] for row in clocks} == {"0 actual", "1 actual", "0 request", "1 request"}
        assert self.rows("collectd", "flex-170", "collectd_gpu_sysman_power_watts") == [""]

    @pytest.mark.slow
    def test_other_vendors_know_no_tiles(self) -> None:
        page = sample_page("dcgm", "max-1550")[1]
        assert len(re.findall(r"^DCGM_FI_DEV_GPU_UTIL\{", page, re.MULTILINE)) == 2
