"""Rules of levels, as operations on arrays: a rule that does not hold is yielded by its name, with what breaks it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Level, Mask

#: A rule, and the entities that break it.
Broken = tuple[str, Mask]
#: Rounding of sums and powers.
NEAR: Final = 1e-6


def assert_none(broken: Iterable[Broken], level: Level) -> None:
    """Fail if a rule is broken, with what the first of the entities shows."""
    for rule, where in broken:
        place = int(np.flatnonzero(where)[0])
        shown = {name: float(values[place]) for name, values in level.arrays.items() if level.has(name, place)}
        raise AssertionError(f"{rule} does not hold at {np.flatnonzero(where).tolist()}; the first shows {shown}")


def broken(rule: str, where: Mask) -> Iterator[Broken]:
    """The rule, if an entity breaks it."""
    if where.any():
        yield rule, where


def of_numbers(level: Level) -> Iterator[Broken]:
    """Numbers are finite, not below 0 unless they are temperatures, and shares are at most 1."""
    for name, values in level.arrays.items():
        lowest, highest = float(values.min(initial=0.0)), float(values.max(initial=0.0))
        if not np.isfinite(lowest + highest):
            yield f"{name} is a number", ~np.isfinite(values)
        if lowest < 0 and not name.endswith("_celsius"):
            yield f"{name} is not below 0", values < 0
        if highest > 1 and name.endswith("_ratio"):
            yield f"{name} is at most 1", values > 1


def near(one: Floats, other: Floats) -> Mask:
    """Whether numbers are equal but for rounding."""
    return np.abs(one - other) <= NEAR * np.maximum(np.maximum(np.abs(one), np.abs(other)), 1.0)
