"""Devices that are divided, for tests: an A100 in instances, and a board with round numbers in three parts."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fakedev.sim.entities.state import State
from fakedev.sim.fleet import Fleet
from fakedev.sim.parts.mig import Mig, MigProfile, instances
from fakedev.spec.device_types import PartSpec
from fakedev.spec.fleet import DeviceSpec, PoolSpec
from tests.support.fleets import BOARD, MIB, make_fleet, pool_of

#: Of a board with 900 MiB for work: four and two and one of seven, and 700 MiB of its memory.
ROUND_PARTS: Final = (
    PartSpec("half", 4 / 7, 400 * MIB, facts={"mig_profile": "4g", "mig_id": "1"}),
    PartSpec("quarter", 2 / 7, 200 * MIB, facts={"mig_profile": "2g", "mig_id": "5"}),
    PartSpec("eighth", 1 / 7, 100 * MIB, facts={"mig_profile": "1g", "mig_id": "13"}),
)
#: How the A100 of 40 GB can be divided, in short.
A100: Final = Mig(
    7,
    8,
    (
        MigProfile("1g.5gb", 1, 1, 4864.0 * MIB, (6, 4, 5, 0, 1, 2, 3)),
        MigProfile("1g.5gb+me", 1, 1, 4864.0 * MIB, (6, 4, 5, 0, 1, 2, 3), most=1),
        MigProfile("2g.10gb", 2, 2, 9856.0 * MIB, (4, 0, 2)),
        MigProfile("3g.20gb", 3, 4, 19968.0 * MIB, (4, 0)),
        MigProfile("4g.20gb", 4, 4, 19968.0 * MIB, (0,)),
        MigProfile("7g.40gb", 7, 8, 40192.0 * MIB, (0,)),
    ),
)


def parts_of(*names: str) -> tuple[PartSpec, ...]:
    """The instances of some profiles on an A100."""
    found = [A100.profile(name) for name in names]
    return tuple(instances(A100, [each for each in found if each is not None]))


def divided_pool(name: str = "dgx", parts: tuple[PartSpec, ...] = ROUND_PARTS, **more: Any) -> PoolSpec:
    """A pool of one node of four boards, of which the second is divided."""
    return pool_of(name, **{"device_type": BOARD, "devices": {1: DeviceSpec(1, parts=parts)}, **more})


def divided_fleet(**more: Any) -> Fleet:
    """A fleet of one such node, ``dgx-0``: its parts are ``dgx-0/1/0`` to ``dgx-0/1/2``."""
    return make_fleet(divided_pool(), **more)


def of_parts(fleet: Fleet, quantity: str) -> list[float]:
    """What each part shows of a quantity."""
    found: list[float] = fleet.state.levels["part"].arrays[quantity].round(9).tolist()
    return found


def check_parts(fleet: Fleet, state: State) -> None:
    """What holds of parts and their devices in every tick."""
    parts = fleet.roster.parts
    if not parts.count:
        return
    devices, of_parts, units = (state.levels[name] for name in ("device", "part", "unit"))
    for name in of_parts.arrays:
        assert np.isfinite(of_parts.arrays[name]).all(), name
        if name in devices.arrays:
            together = np.concatenate((devices.arrays[name], of_parts.arrays[name]))
            assert np.array_equal(units.arrays[name], together), name

    def summed(name: str, weights: Any = 1.0) -> Any:
        return np.bincount(parts.owners, of_parts.arrays[name] * weights, parts.device_count)

    for name in of_parts.arrays:
        if name.endswith("_active_ratio") or name in ("usage_ratio", "memory_bandwidth_ratio"):
            assert (of_parts.arrays[name] <= 1.0 + 1e-9).all(), name
            assert (summed(name, parts.compute_share) <= devices.arrays[name] + 1e-6).all(), name
    used, free, total = (of_parts.arrays[f"memory_{each}_bytes"] for each in ("used", "free", "total"))
    assert (used >= 0).all()
    assert np.allclose(used + free + of_parts.arrays["memory_reserved_bytes"], total)
    assert (summed("memory_used_bytes") <= devices.arrays["memory_used_bytes"] + 1.0).all()
    for name in ("power_watts", "temperature_celsius", "core_frequency_mhz", "energy_joules"):
        if name in of_parts.arrays:
            has = of_parts.present.get(name, np.ones(parts.count, np.bool_))
            assert np.array_equal(of_parts.arrays[name][has], devices.arrays[name][parts.owners][has]), name
