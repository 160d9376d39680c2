"""Randomness as a pure function of the seed, an entity's key, a quantity and a tick.

Nothing here has a state or depends on an entity's position in an array, so shards, reloads and added pools change no
entity's history. Only integer and plain float operations are used: the results do not depend on how a vector unit
computes a logarithm.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.fleet.spec.limits import entity_key

Keys = NDArray[np.uint64]
Floats = NDArray[np.float64]

# splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
_GAMMA: Final = 0x9E3779B97F4A7C15
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)
_MASK: Final = (1 << 64) - 1
_TO_UNIT: Final = 2.0**-53
#: 16 random bits as a number between -1 and 1.
_TO_SIGNED: Final = 2.0**-15
_ALMOST_ONE: Final = 1.0 - 2.0**-16
_SIXTEENS: Final = np.uint64(0x0000_FFFF_0000_FFFF)


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


def _in_unit(bits: Keys) -> Floats:
    """Random bits as numbers in [0, 1)."""
    unit: Floats = np.right_shift(bits, np.uint64(11)) * _TO_UNIT
    return unit


def _context(seed: int, quantity: str) -> np.uint64:
    return np.uint64((entity_key(quantity) + seed * _GAMMA) & _MASK)


def _moment(tick: int, draw: int) -> np.uint64:
    return np.uint64(((tick * 16 + draw + 1) * _GAMMA) & _MASK)


def uniform(seed: int, keys: Keys, quantity: str, tick: int | Keys) -> Floats:
    """One number in [0, 1) for each key, one draw; parameters as of :func:`hashes`."""
    return _in_unit(hashes(seed, keys, quantity, tick))


class Draws:
    """Random numbers of one quantity of entities that stay the same: as :func:`uniform`, at half of its price.

    :param keys: of the entities.
    """

    def __init__(self, seed: int, keys: Keys, quantity: str) -> None:
        self._mixed = _mixed(keys ^ _context(seed, quantity))

    def uniform(self, tick: int) -> Floats:
        """One number in [0, 1) for each entity."""
        return _in_unit(_mixed(self._mixed + _moment(tick, 0)))

    def signed(self, tick: int, draw: int = 0) -> Floats:
        """Four numbers between -1 and 1 for each entity, of 16 bits each, from one draw: shape (4, entities)."""
        bits = _mixed(self._mixed + _moment(tick, draw)).astype("<u8", copy=False)
        fours: Floats = bits.view("<u2").reshape(-1, 4).T * _TO_SIGNED
        fours -= _ALMOST_ONE
        return fours


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
