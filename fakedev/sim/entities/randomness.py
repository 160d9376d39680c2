"""Randomness as a pure function of the seed, an entity's key, a quantity and a tick; and the noise of fluctuation.

Nothing here has a state or depends on an entity's position in an array, so shards, reloads and added pools change no
entity's history. Only integer and plain float operations are used: the results do not depend on how a vector unit
computes a logarithm. Fluctuation is noise with a memory, one source for each pair of a workload and a device.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.spec.shards import entity_key

Keys = NDArray[np.uint64]
Floats = NDArray[np.float64]

#: Time constant of fluctuation: its lag-1 autocorrelation at ticks of 1 s is exp(-1/10).
CORRELATION_SECONDS: Final = 10.0
#: Standard deviation of the noise in the unit of the fluctuation, before it is reflected at +/- 1.
_DEVIATION: Final = 0.5

# splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
_GAMMA: Final = 0x9E3779B97F4A7C15
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_MASK: Final = (1 << 64) - 1
_TO_UNIT: Final = 2.0**-53
_SIXTEENS: Final = np.uint64(0x0000_FFFF_0000_FFFF)
#: So many keys at a time fit into a processor's cache with all that is computed of them.
_CHUNK: Final = 8192


def _mixed(values: Keys) -> Keys:
    values = values ^ (values >> np.uint64(30))
    values *= _MIX_1
    values ^= values >> np.uint64(27)
    values *= _MIX_2
    values ^= values >> np.uint64(31)
    return values


def hashes(seed: int, keys: Keys, quantity: str, tick: int | Keys, draw: int = 0) -> Keys:
    """64 random bits for each key: shape as ``keys``.

    :param tick: one for all, or a number for each key.
    """
    if isinstance(tick, int):
        moment: np.uint64 | Keys = _moment(tick, draw)
    else:
        moment = (tick * np.uint64(16) + np.uint64(draw + 1)) * np.uint64(_GAMMA)
    return _mixed(_mixed(keys ^ _context(seed, quantity)) + moment)


def _context(seed: int, quantity: str) -> np.uint64:
    return np.uint64((entity_key(quantity) + seed * _GAMMA) & _MASK)


def _moment(tick: int, draw: int) -> np.uint64:
    return np.uint64(((tick * 16 + draw + 1) * _GAMMA) & _MASK)


def uniform(seed: int, keys: Keys, quantity: str, tick: int | Keys) -> Floats:
    """One number in [0, 1) for each key, one draw; parameters as of :func:`hashes`."""
    unit: Floats = np.right_shift(hashes(seed, keys, quantity, tick), np.uint64(11)) * _TO_UNIT
    return unit


def sub_keys(keys: Keys, numbers: Keys) -> Keys:
    """Keys of the numbered parts of entities, shape as both."""
    return _mixed(keys + (numbers + np.uint64(1)) * np.uint64(_GAMMA))


def normal(seed: int, keys: Keys, quantity: str, tick: int) -> Floats:
    """One number of mean 0 and variance 1 for each key, two draws.

    The sum of eight 16-bit uniforms (Irwin-Hall, n = 8): bounded by +/- 4.9, excess kurtosis -0.15,
    close enough to a normal distribution for fluctuating load, and the same on every machine.
    """
    mean = 8 * 65535 / 2
    deviation = math.sqrt(8 * (65536**2 - 1) / 12)
    mixed = _mixed(keys ^ _context(seed, quantity))
    # Two sums at a time, each in its half of the 64 bits.
    sums = np.zeros(keys.shape, dtype=np.uint64)
    for draw in (0, 1):
        bits = _mixed(mixed + _moment(tick, draw))
        sums += bits & _SIXTEENS
        bits >>= np.uint64(16)
        bits &= _SIXTEENS
        sums += bits
    total = (sums & np.uint64(0xFFFFFFFF)) + (sums >> np.uint64(32))
    return (total.astype(np.float64) - mean) / deviation


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
