"""What boards draw: from work and clock, and the clock at which they stay within their limit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.boards.engines import Work
from fakedev.sim.boards.settings import Setting
from fakedev.sim.entities.randomness import Floats


def work_share(boards: Coefficients, work: Work) -> Floats:
    """What the work draws at the highest clock, as a share of what plain full load draws there."""
    total = np.zeros(boards.count)
    for name, load in work.drawing.items():
        kind = boards.kinds[name]
        total = total + kind.power * kind.exponents.of(load)
    return total if work.hung is None else np.where(work.hung, boards.hang_power_share, total)


def fitting_ratio(boards: Coefficients, setting: Setting, share: Floats) -> Floats:
    """The share of the highest clock at which the work stays within the power limit; 1 where all of it does."""
    room = setting.room_watts
    wanted = boards.work_watts * share
    over = wanted > room
    if not over.any():
        return np.ones(boards.count)
    # Without any room not even the highest clock by itself fits, and only idle is left.
    ratio = np.divide(np.maximum(room, 0.0), wanted, out=np.ones_like(room), where=over & (wanted > 0))
    ratio = np.where(over & (wanted <= 0), 0.0, ratio)
    return boards.clock_roots.of(ratio)


def board_power(boards: Coefficients, share: Floats, clock: Floats) -> Floats:
    """The power that the board draws."""
    scaled = share * boards.clock_exponents.of(clock / boards.high["core_frequency_mhz"])
    power: Floats = boards.idle_watts + boards.clocked_watts * boards.raised(clock) + boards.work_watts * scaled
    return power


def memory_power(boards: Coefficients, traffic: Mapping[str, Floats], power: Floats) -> Floats:
    """The part of it that the memory draws: it grows with the square root of the bandwidth in use."""
    name = "memory_power_watts"
    used = (traffic["memory_bandwidth_ratio"] - boards.low["memory_bandwidth_ratio"]) / boards.plain_bandwidth
    drawn = boards.span[name] * np.sqrt(np.maximum(used, 0.0))
    return boards.low[name] + np.minimum(drawn, power - boards.idle_watts)
