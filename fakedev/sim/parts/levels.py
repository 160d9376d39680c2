"""Levels of parts and units: a part shows its own quantities and otherwise its device's, computed on demand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import LazyArrays, Level, Mask
from fakedev.sim.parts.layout import Parts


def part_level(parts: Parts, devices: Level, own: Mapping[str, Floats], lost: Mask | None = None) -> Level:
    """The level of the parts.

    :param devices: the level of the devices.
    :param own: the parts' own quantities, shape (P,).
    :param lost: parts that are lost without their devices, shape (P,): they show nothing else.
    """

    def array(name: str) -> Floats:
        return own[name] if name in own else devices.arrays[name][parts.owners]

    def mask(name: str) -> Mask:
        has = devices.present[name][parts.owners] if name in devices.present else np.ones(parts.count, dtype=np.bool_)
        return has if lost is None or name == "lost" else has & ~lost

    names = {**devices.arrays, **own}
    return Level(parts.count, LazyArrays(names, array), LazyArrays(devices.present if lost is None else names, mask))


def unit_level(parts: Parts, devices: Level, of_parts: Level) -> Level:
    """The level of all units, from those of devices and parts."""

    def array(name: str) -> Floats:
        own = devices.arrays[name] if name in devices.arrays else np.zeros(devices.count)
        return parts.units(own, of_parts.arrays[name])

    def mask(name: str) -> Mask:
        return np.concatenate([_mask(level, name) for level in (devices, of_parts)])

    # Only names: arrays are computed on demand.
    names = dict.fromkeys((*devices.arrays, *of_parts.arrays))
    only_of_parts = [name for name in of_parts.arrays if name not in devices.arrays]
    masked = dict.fromkeys((*devices.present, *of_parts.present, *only_of_parts))
    return Level(parts.unit_count, LazyArrays(names, array), LazyArrays(masked, mask))


def _mask(level: Level, name: str) -> Mask:
    """Entities of a level with a quantity."""
    return level.present.get(name, np.full(level.count, name in level.arrays))


def split_level(parts: Parts, units: Level) -> tuple[Level, Level]:
    """The levels of devices and of parts in a level of all units."""
    count = parts.device_count

    def of(begin: int, end: int) -> Level:
        return Level(
            end - begin,
            LazyArrays(units.arrays, lambda name: units.arrays[name][begin:end]),
            LazyArrays(units.present, lambda name: units.present[name][begin:end]),
        )

    return of(0, count), of(count, parts.unit_count)
