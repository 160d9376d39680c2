"""Devices that are divided, for tests: an A100 in instances, and a board with round numbers in three parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from fakedev.fleet.entities.state import Level, State
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.parts.mig import Mig, instances
from fakedev.fleet.parts.part_layout import Parts
from fakedev.fleet.spec.device_types import MigProfile, PartSpec
from fakedev.fleet.spec.fleet_spec import DeviceSpec, PoolSpec
from tests.support.fleet.fleets import BOARD, MIB, make_fleet, pool_of
from tests.support.rules import Broken, assert_none, broken, near, of_numbers

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
    assert_none(of_parts_and_devices(parts, state.levels), state.levels["part"])
    devices, of_parts, units = (state.levels[name] for name in ("device", "part", "unit"))
    for name in of_parts.arrays:
        if name in devices.arrays:
            together = np.concatenate((devices.arrays[name], of_parts.arrays[name]))
            assert np.array_equal(units.arrays[name], together), name


def of_parts_and_devices(parts: Parts, levels: Mapping[str, Level]) -> Iterator[Broken]:
    """What parts are is at most what their devices are; other quantities are those of their devices."""
    devices, of_parts = levels["device"], levels["part"]
    arrays, owners = of_parts.arrays, parts.owners
    yield from of_numbers(of_parts)

    def too_much(name: str, weights: Any, more: float) -> Any:
        folded = np.bincount(owners, arrays[name] * weights, parts.device_count)
        return (folded > devices.arrays[name] + more)[owners]

    for name in arrays:
        if name.endswith("_active_ratio") or name in ("usage_ratio", "memory_bandwidth_ratio"):
            yield from broken(f"{name} of parts is at most their device's", too_much(name, parts.compute_share, 1e-6))
    for name in ("memory_read_bytes_per_second", "memory_write_bytes_per_second"):
        if name in arrays:
            yield from broken(f"{name} of parts is at most their device's", too_much(name, 1.0, 1e3))
    used, free, reserved, total = (arrays[f"memory_{each}_bytes"] for each in ("used", "free", "reserved", "total"))
    lost = arrays["lost"] > 0 if "lost" in arrays else np.zeros(parts.count, np.bool_)
    yield from broken("memory of parts used, free and reserved is all", ~lost & ~near(used + free + reserved, total))
    yield from broken("memory_used_bytes of parts is at most their device's", too_much("memory_used_bytes", 1.0, 1.0))
    for name in ("power_watts", "temperature_celsius", "core_frequency_mhz", "energy_joules"):
        if name in arrays:
            other = of_parts.mask(name) & ~parts.is_tile & (arrays[name] != devices.arrays[name][owners])
            yield from broken(f"{name} of a part is its device's", other)
    for name in ("power_watts", "memory_used_bytes", "memory_read_bytes_per_second", "memory_write_bytes_per_second"):
        if name in arrays:
            together = np.bincount(owners, arrays[name], parts.device_count)[owners]
            whole = devices.arrays[name][owners]
            differs = ~np.isclose(together, whole, rtol=1e-6, atol=1e3 if "bytes" in name else 1e-6)
            # Where one tile is lost alone, its board goes on.
            are_there = parts.is_tile & (np.bincount(owners, lost, parts.device_count)[owners] == 0)
            yield from broken(f"the tiles of a board add up to its {name}", differs & are_there)
