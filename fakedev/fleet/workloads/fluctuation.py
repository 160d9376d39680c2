"""The fluctuation of load: noise with a memory, one source for each pair of a workload and a device."""

from __future__ import annotations

from typing import Final

import numpy as np

from fakedev.fleet.entities.randomness import Floats, Keys, normal

#: Time constant of fluctuation: its lag-1 autocorrelation at ticks of 1 s is exp(-1/10).
CORRELATION_SECONDS: Final = 10.0

#: Standard deviation of the noise in the unit of the fluctuation, before it is reflected at +/- 1.
_DEVIATION: Final = 0.5

#: Keys at a time that fit into a processor's cache with all that is computed from them.
_CHUNK: Final = 8192


def first_noise(seed: int, keys: Keys, tick: int) -> Floats:
    """The noise of pairs at their start, within -1 to 1: shape as ``keys``."""
    return _reflected(normal(seed, keys, "first workload noise", tick) * _DEVIATION)


def next_noise(noise: Floats, seed: int, keys: Keys, tick: int, seconds: float) -> Floats:
    """The noise some seconds later: mean-reverting (Ornstein-Uhlenbeck, exact for the step), reflected into +/- 1."""
    memory = float(np.exp(-seconds / CORRELATION_SECONDS))
    push = _DEVIATION * (1 - memory**2) ** 0.5
    found = np.empty(len(noise))
    for begin in range(0, len(noise), _CHUNK):
        these = slice(begin, begin + _CHUNK)
        moved = normal(seed, keys[these], "workload noise", tick)
        moved *= push
        moved += memory * noise[these]
        found[these] = _reflected(moved)
    return found


def _reflected(values: Floats) -> Floats:
    """Values reflected into -1 to 1 at both ends, as often as necessary."""
    folded = values + 1.0
    far = np.flatnonzero((folded < 0.0) | (folded > 2.0))
    if len(far):  # few are: the remainder takes long
        outside = np.mod(folded[far], 4.0)
        folded[far] = np.where(outside > 2.0, 4.0 - outside, outside)
    folded -= 1.0
    return folded
