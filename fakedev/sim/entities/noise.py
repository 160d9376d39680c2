"""Fluctuation: noise with a memory, one source for each pair of a workload and a device."""

from __future__ import annotations

from typing import Final

import numpy as np

from fakedev.sim.entities.randomness import Floats, Keys, normal

#: Seconds over which fluctuation forgets: its lag-1 autocorrelation at 1 s ticks is exp(-1/10).
CORRELATION_SECONDS: Final = 10.0
#: Standard deviation of the noise in the unit of the fluctuation, before it is reflected at +/- 1.
_DEVIATION: Final = 0.5


def first_noise(seed: int, keys: Keys, tick: int) -> Floats:
    """The noise that pairs begin with, within -1 to 1: shape as ``keys``."""
    return _reflected(normal(seed, keys, "first workload noise", tick) * _DEVIATION)


def next_noise(noise: Floats, seed: int, keys: Keys, tick: int, seconds: float) -> Floats:
    """The noise some seconds later: mean-reverting (Ornstein-Uhlenbeck, exact for the step), reflected into +/- 1."""
    memory = float(np.exp(-seconds / CORRELATION_SECONDS))
    push = _DEVIATION * (1 - memory**2) ** 0.5
    return _reflected(memory * noise + push * normal(seed, keys, "workload noise", tick))


def _reflected(values: Floats) -> Floats:
    """Values folded back into -1 to 1 at both ends, as often as it takes."""
    folded = np.mod(values + 1.0, 4.0)
    return np.where(folded > 2.0, 4.0 - folded, folded) - 1.0
