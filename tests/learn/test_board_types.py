"""Device types of boards that are not as the catalog has them, from their power and temperature over time."""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.config.load import load
from fakedev.fleet.fleet import Fleet
from fakedev.learn.board_types import fitted_ranges, own_type
from fakedev.learn.tracks import POWER, TEMPERATURE, USAGE, Owner, Track
from fakedev.schema.files import Files

pytestmark = pytest.mark.slow

FLEET = """
fleet:
  tick: 10s
  pools: [{name: a, nodes: [n], device: %s, devices-per-node: 4}]
workloads: {base: [{name: w, devices: [n/2, n/3], profile: "40:0:300,95:0:300"}]}
"""
CATALOG = Files(environ={}).peek_catalog("devices", "h100-sxm5-80gb.yaml")


def fitted(device: str, text: str = "") -> dict[str, tuple[float, float]]:
    """What two idle and two busy boards of a type show, against H100s of the catalog.

    :param text: of a file of one's own.
    """
    usual = load(None, Files(environ={}), text=FLEET % "h100").fleet.pools[0].device_type
    files = Files(environ={}, made={"/made/fleet.yaml": FLEET % device, "/made/own.yaml": text})
    fleet = Fleet(load("/made/fleet.yaml", files).fleet)
    shown: dict[str, list[np.ndarray[tuple[int], np.dtype[np.float64]]]] = {POWER: [], TEMPERATURE: [], USAGE: []}
    for _ in range(1000):
        fleet.advance()
        for quantity, values in shown.items():
            values.append(getattr(fleet, quantity).copy())
    seconds = np.arange(1000, dtype=np.uint32) * 10
    columns = {quantity: np.array(values) for quantity, values in shown.items()}
    tracks = [
        Track(("n", str(board)), Owner("ml", "w") if board > 1 else Owner(), seconds,
              {name: columns[name][:, board].astype(np.float32) for name in (POWER, USAGE)}, str(board))
        for board in range(4)
    ]  # fmt: skip
    heat = {("n", str(board)): (seconds[::10].astype(float), columns[TEMPERATURE][::10, board]) for board in range(4)}
    return fitted_ranges(usual, tracks, heat)


def test_boards_of_the_catalog() -> None:
    """They need no type of their own."""
    assert fitted("h100") == {}


def test_other_boards() -> None:
    """Their idle power, and how warm they get by a watt, are found."""
    usual = load(None, Files(environ={}), text=FLEET % "h100").fleet.pools[0].device_type
    power, heat = usual.ranges[POWER], usual.ranges[TEMPERATURE]
    ranges = {POWER: (power.low + 30, power.high), TEMPERATURE: (heat.low, heat.high + 15)}
    found = fitted("./own.yaml", own_type(CATALOG, "own", ranges))
    assert found[POWER][0] == pytest.approx(power.low + 30, rel=0.03)
    by_watt = (heat.high + 15 - heat.low) / (power.high - power.low - 30)
    low, high = found[TEMPERATURE]
    assert low == heat.low
    assert (high - low) / (found[POWER][1] - found[POWER][0]) == pytest.approx(by_watt, rel=0.05)
