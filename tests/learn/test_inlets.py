"""The inlet temperature of boards, from their temperature and power over time."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.config.load import load
from fakedev.fleet.boards.conditions import room_wave
from fakedev.fleet.fleet import Fleet
from fakedev.learn.inlets import fitted_inlets, with_inlets
from fakedev.learn.tracks import POWER, TEMPERATURE, USAGE, Owner, Track
from fakedev.schema.files import Files

FLEET = """
fleet:
  tick: 10s
  pools:
  - {name: a, nodes: [n], device: h100, devices-per-node: 3, devices: [{index: 1, inlet: 31}, {index: 2, inlet: 18}]}
workloads: {base: [{name: w, devices: all, profile: "0:0:400,95:5:300"}]}
"""


@cache
def fleet() -> Fleet:
    return Fleet(load(None, Files(environ={}), text=FLEET).fleet)


@pytest.mark.slow
def test_boards_that_get_warm_and_cold() -> None:
    """Their air is known to a kelvin, though one board is of the type's own: at no moment they are in balance."""
    simulated = fleet()
    power, heat = [], []
    for _ in range(700):
        simulated.advance()
        level = simulated.state.levels["device"].arrays
        power.append(level[POWER].astype(np.float32))
        heat.append(level[TEMPERATURE].copy())
    seconds = np.arange(700, dtype=np.uint32) * 10
    epoch = np.uint32(simulated.spec.epoch_seconds)
    tracks = [
        Track(("n", str(board)), Owner(), epoch + seconds, {POWER: np.array(power)[:, board]}, str(board))
        for board in range(3)
    ]
    times = (epoch + seconds[::10]).astype(np.float64)
    of_boards = {("n", str(board)): (times, np.array(heat)[::10, board]) for board in range(3)}
    board_type = simulated.roster.nodes[0].pool.device_type
    found, drift = fitted_inlets(of_boards, tracks, lambda node: board_type, lambda track: f"n/{track.index}")
    assert board_type.dynamics is not None
    assert board_type.dynamics.inlet_celsius is not None
    assert found["n/0"] == pytest.approx(board_type.dynamics.inlet_celsius, abs=4.0)
    assert drift == board_type.dynamics.inlet_drift_celsius
    wave = float(np.mean([room_wave(time) for time in times.tolist()]))
    # Their air is given, so it does not drift in this fleet.
    assert [found["n/1"], found["n/2"]] == pytest.approx([31 - drift * wave, 18 - drift * wave], abs=1.0)


def test_what_says_nothing() -> None:
    """A board without a power, without a temperature, or without a number."""
    seconds, numbers = np.zeros(1, np.uint32), np.zeros(1, np.float32)
    tracks = [
        Track(("n", "a"), Owner(), seconds, {USAGE: numbers}, "0"),
        Track(("n", "b"), Owner(), seconds, {POWER: numbers}, "1"),
        Track(("n", "c"), Owner(), seconds, {POWER: numbers}, ""),
    ]
    known = {("n", "a"): (np.ones(1), np.ones(1)), ("n", "c"): (np.ones(1), np.ones(1))}
    board_type = fleet().roster.nodes[0].pool.device_type
    assert fitted_inlets(known, tracks, lambda node: board_type, lambda track: track.index) == ({}, None)


def _placed(pools: list[dict[str, Any]]) -> dict[str, float]:
    return {
        f"{node}/{entry['index']}": entry["inlet"]
        for pool in pools for node in pool["nodes"] for entry in pool.get("devices", ()) if "inlet" in entry
    }  # fmt: skip


@given(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(0, 1)), st.sampled_from([20.0, 30.0])))
def test_each_board_has_its_own(inlets: dict[tuple[int, int], float]) -> None:
    """Whichever are known; nodes stay in their order, and those that are alike, one after the other, are one pool."""
    wanted = {f"n{node}/{index}": inlet for (node, index), inlet in inlets.items()}
    pools = [{"name": "clone-0", "nodes": ["n0", "n1", "n2", "n3"], "device": "h100", "devices-per-node": 2}]
    found = with_inlets(pools, wanted, 0.5)
    assert _placed(found) == wanted
    assert [node for pool in found for node in pool["nodes"]] == ["n0", "n1", "n2", "n3"]
    assert [pool["name"] for pool in found] == [f"pool-{number}" for number in range(len(found))]
    assert all(one.get("devices") != other.get("devices") for one, other in pairwise(found))
    assert {pool["inlet-drift"] for pool in found} == {0.5}
    assert "devices" not in pools[0]


@pytest.mark.parametrize("drift", [0.0, 2.5])
def test_a_room_that_drifts(drift: float) -> None:
    """Of a day and more it is known how far; of the temperature of work nothing is taken for it."""
    board_type = fleet().roster.nodes[0].pool.device_type
    assert board_type.dynamics is not None
    assert board_type.dynamics.inlet_celsius is not None
    heat, power = board_type.ranges[TEMPERATURE], board_type.ranges[POWER]
    seconds = np.arange(0, 2 * 86_400, 600)
    busy = (seconds // 3600 % 5 < 2).astype(np.float64)
    rise = heat.low - board_type.dynamics.inlet_celsius + busy * (heat.high - heat.low)
    air = 20.0 + drift * np.array([room_wave(float(each)) for each in seconds])
    watts = (power.low + busy * (power.high - power.low)).astype(np.float32)
    track = Track(("n", "a"), Owner(), seconds.astype(np.uint32), {POWER: watts}, "0")
    known = {("n", "a"): (seconds.astype(np.float64), air + rise)}
    inlets, found = fitted_inlets(known, [track], lambda node: board_type, lambda each: each.index)
    assert inlets == {"0": pytest.approx(20, abs=0.1)}
    assert found == pytest.approx(drift, abs=0.1)
