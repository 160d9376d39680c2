"""What sensors show of the true state: independent errors, which leave the truth alone."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from fakedev.fleet.boards.sensors import COUNTER_ERROR, ERRORS, INSTANT
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.fleet.spec.fleet_spec import FleetSpec
from tests.support.fleet.calibration import catalog_type
from tests.support.fleet.fleets import advance, pool_of, workload

SECONDS = 200


def run(board: DeviceType, *, exact: bool, kind: str = "tensor", load: str = "100:0:0") -> dict[str, Floats]:
    """Everything that eight boards show in each second of work: arrays of shape (seconds, boards) by quantity."""
    base = (workload("all", load, kind=kind),)
    fleet = Fleet(FleetSpec((pool_of(device_type=board, devices_per_node=8),), base=base, exact_sensors=exact))
    advance(fleet, 60)
    seen = []
    for _ in range(SECONDS):
        fleet.advance()
        seen.append(fleet.state.levels["device"].arrays)
    return {name: np.array([arrays[name] for arrays in seen]) for name in seen[0]}


@cache
def pair(board: str) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """The true values, and what sensors show of them."""
    return run(catalog_type(board), exact=True), run(catalog_type(board), exact=False)


@pytest.mark.slow
@pytest.mark.parametrize("board", ["h100", "a100", "mi300x"])
def test_readings_are_within_their_errors(board: str) -> None:
    true, shown = pair(board)
    for name in ERRORS.keys() & true.keys():
        assert (np.abs(shown[name] - true[name]) <= 1.0001 * ERRORS[name] * true[name]).all(), name


@pytest.mark.slow
def test_the_truth_is_the_same() -> None:
    """Errors change nothing of what follows from the truth."""
    true, shown = pair("h100")
    for name in ("temperature_celsius", "usage_ratio", "core_frequency_mean_mhz", "memory_read_bytes"):
        assert np.array_equal(true[name], shown[name]), name
    one, other = (np.diff(each["energy_joules"], axis=0) for each in (true, shown))
    assert np.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("link", ["pcie", "fabric"])
def test_each_direction_of_a_link_has_a_counter(link: str) -> None:
    """Two counters never agree, in all and in a tick; each misses little of what was carried, and never falls."""
    true, shown = pair("h100")
    sent, received = (shown[f"{link}_{way}_bytes"] for way in ("tx", "rx"))
    assert (sent != received).all()
    assert (np.diff(sent, axis=0) != np.diff(received, axis=0)).mean() > 0.99
    for way, counted in (("tx", sent), ("rx", received)):
        carried = true[f"{link}_{way}_bytes"]
        assert (carried > 0).all()
        assert (counted <= carried).all()
        assert (counted >= (1.0 - COUNTER_ERROR) * carried).all()
        assert (np.diff(counted, axis=0) > 0).all()


def test_no_two_agree() -> None:
    _, shown = pair("h100")
    power, instant, energy = shown["power_watts"][1:], shown[INSTANT][1:], np.diff(shown["energy_joules"], axis=0)
    assert (np.abs(energy - power) > 2e-3).mean() > 0.9
    assert (power != instant).all()
    assert (shown["fabric_tx_bytes_per_second"] != shown["fabric_rx_bytes_per_second"]).mean() > 0.9
    assert len(np.unique(np.diff(shown["throttled_power_seconds"], axis=0))) > SECONDS


@pytest.mark.slow
@pytest.mark.parametrize(("board", "p99"), [("h100", 1.02), ("a100", 1.12)])
def test_power_at_the_limit(board: str, p99: float) -> None:
    """GA100 shows the power of a moment, newer boards that of a second: one passes its limit by far more."""
    true, shown = pair(board)
    ratio = shown["power_watts"] / true["power_limit_watts"]
    assert np.median(ratio) == pytest.approx(1.0, abs=0.01)
    assert np.quantile(ratio, 0.99) == pytest.approx(p99, abs=0.02)
    assert (true["power_watts"] <= true["power_limit_watts"]).all()


def test_the_clock_at_the_limit_moves_in_steps() -> None:
    true, shown = pair("h100")
    clock = shown["core_frequency_mhz"]
    assert len(np.unique(clock)) > 3
    assert (clock % 15 == 0).all()
    assert (clock < shown["core_frequency_request_mhz"]).all()
    assert clock.mean() == pytest.approx(true["core_frequency_mean_mhz"].mean(), rel=0.01)


def test_pipes_are_no_busier_than_multiprocessors() -> None:
    _, shown = pair("h100")
    assert (shown["tensor_active_ratio"] <= shown["sm_active_ratio"]).all()
    assert (shown["sm_active_ratio"] <= shown["engine_active_ratio"]).all()


@pytest.mark.slow
def test_idle_boards_have_no_traffic() -> None:
    shown = run(catalog_type("h100"), exact=False, load="0:0:0")
    assert (shown["fabric_tx_bytes_per_second"] == 0).all()
    assert shown["memory_used_bytes"].max() == 0


def test_memory_differs_where_a_share_is_asked_for() -> None:
    """Allocators of the ranks of a job differ; who asks for an amount gets it."""
    used = {}
    for asked in ("50%", "16GiB"):
        base = (workload("all", "50:0:0", metrics={"memory": asked}),)
        fleet = Fleet(FleetSpec((pool_of(device_type=catalog_type("h100"), devices_per_node=8),), base=base))
        fleet.advance()
        used[asked] = fleet.memory_used_ratio
    assert len(np.unique(used["50%"])) == 8
    assert used["50%"] == pytest.approx(np.full(8, 0.49), abs=0.015)
    assert len(np.unique(used["16GiB"])) == 1
