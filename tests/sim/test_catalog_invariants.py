"""Random days of every board of the catalog, with all that can happen to them, in which no rule is broken.

The rules are in tests/support: board_checks.py, link_checks.py and divided_devices.py. ``python benchmarks/run.py
invariants`` checks 25 times as much as all examples.
"""

from __future__ import annotations

import numpy as np
import pytest

from fakedev.sim.entities.state import Level
from tests.support.board_checks import BoardRules
from tests.support.calibration import catalog_names, catalog_type
from tests.support.examples import examples
from tests.support.faulty_fleets import busy
from tests.support.invariants import POOLS, TICKS, random_days

#: Devices times ticks, of all lengths of ticks together.
DEVICE_TICKS = examples(20) * 10_000


def test_every_board() -> None:
    """The days have boards of every type of the catalog."""
    assert {catalog_type(name).name for name in POOLS} == set(catalog_names())


@pytest.mark.slow
@pytest.mark.deep
@pytest.mark.parametrize("tick_seconds", TICKS)
def test_random_days(tick_seconds: float) -> None:
    """Conservation, limits, causes, heat and counters hold for boards, their parts and their links."""
    device_ticks = round(DEVICE_TICKS * TICKS[tick_seconds])
    found = random_days(device_ticks, tick_seconds)
    assert not found.broken, found.examples
    assert found.device_ticks >= device_ticks


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("power_watts", 900.0, "the power is within its limit"),
        ("core_frequency_mhz", 1501.0, "core_frequency_mhz is supported"),
        ("memory_used_bytes", 1.0, "memory used, free and reserved are all"),
        ("memory_read_bytes_per_second", 0.0, "reads and writes are the memory's traffic"),
        ("usage_ratio", 1.5, "usage_ratio is at most 1"),
        ("temperature_celsius", 99.0, "no board passes its shutdown temperature"),
        ("energy_joules", 0.0, "energy_joules never falls"),
        ("pcie_tx_bytes_per_second", 70e9, "pcie_tx_bytes_per_second fits on the link"),
        ("throttled_hardware", 1.0, "throttled_hardware has a cause"),
        ("xid", 48.0, "XID 48 comes with its errors"),
        ("lost", 1.0, "a lost board shows nothing but its error"),
    ],
)
def test_rules_find_what_is_wrong(name: str, value: float, rule: str) -> None:
    """A board with one impossible value breaks the rule that forbids it; without it, no rule."""
    fleet = busy()
    before = fleet.state.levels["device"]
    fleet.advance()
    after = fleet.state.levels["device"]
    rules = BoardRules([catalog_type("h100")] * after.count)

    def broken(level: Level) -> dict[str, list[int]]:
        found = [*rules.of_level(level), *rules.of_step(before, level, 1.0)]
        return {rule: np.flatnonzero(where).tolist() for rule, where in found}

    assert not broken(after)
    values = after.arrays[name].copy()
    values[2] = value
    assert broken(Level(after.count, {**after.arrays, name: values}, after.present))[rule] == [2]
