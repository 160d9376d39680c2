"""What a run can tell, by what it contains: which coefficients it leaves open, and why."""

from __future__ import annotations

from typing import Final

import numpy as np

from fakedev.calibration.coefficients import (
    CLOCKED_SHARE,
    EXPONENT,
    FULL_POWER,
    HIGH_CLOCK,
    IDLE_CLOCK,
    IDLE_POWER,
    MATRIX_CLOCK,
    MEMORY_WATTS,
    NOISE,
    OF_HEAT,
    POWER_LIMIT,
    Coefficient,
    dynamics_of,
)  # fmt: skip
from fakedev.calibration.model import AT_LIMIT, is_limited, is_slowed, limit_at, loads_of, works
from fakedev.calibration.runs import CLOCK, LIMIT, POWER, USAGE, Run
from fakedev.sim.entities.state import Mask
from fakedev.spec.device_types import DeviceType

#: So many samples show something.
_ENOUGH: Final = 10
#: The clock is low below this share of the highest, for an idle board and for the exponent.
_LOW: Final = 0.9
#: The load of compute work from which on a board is loaded.
_LOADED: Final = 0.9
#: How far a temperature must move, in kelvins.
_MOVES_KELVINS: Final = 5.0
#: Samples of a quiet stretch that the noise needs, and the largest change of usage in it.
_QUIET, _QUIET_USAGE = 30, 0.011
#: Samples must be closer than this share of a time constant.
_CLOSE: Final = 0.25
#: Power within this share of the highest of a run is a plateau.
_PLATEAU: Final = 0.03


def idles(run: Run) -> Mask:
    """Samples without work, at a clock far below the highest of the run."""
    clock = run.numbers[CLOCK]
    found: Mask = ~works(run) & (clock < _LOW * clock.max())
    return found


def plateau(run: Run) -> Mask:
    """Samples with work at the highest power of the run and a lowered clock: the power limit holds them."""
    watts, clock = run.numbers[POWER], run.numbers[CLOCK]
    busy = works(run)
    if not busy.any():
        return busy
    top = float(np.quantile(watts[busy], 0.95))
    found: Mask = busy & (clock < (1.0 - _PLATEAU) * clock.max()) & (np.abs(watts - top) <= _PLATEAU * top)
    return found


def is_quiet(board: DeviceType, run: Run) -> Mask:
    """Samples whose load and clock are those of the two before, and that no power limit levels out."""
    quiet = np.ones(len(run.seconds), np.bool_)
    step = dynamics_of(board).clock_step_mhz
    for name, most in ((USAGE, _QUIET_USAGE), (CLOCK, 0.5 * step)):
        changes = np.abs(np.diff(run.numbers[name], prepend=run.numbers[name][0])) > most
        quiet &= ~changes & ~np.roll(changes, 1)
    return quiet & ~is_limited(board, run)


def clocks_left_open(board: DeviceType, run: Run) -> dict[Coefficient, str]:
    """Which of the clocks and of the limit the run does not show, and why.

    :param board: the catalog's type.
    """
    left: dict[Coefficient, str] = {}
    if np.count_nonzero(idles(run)) < _ENOUGH:
        left[IDLE_CLOCK] = "the board was never idle"
    held, clock = plateau(run), run.numbers[CLOCK]
    is_free = ~held & ~(works(run) & (run.numbers[POWER] >= AT_LIMIT * limit_at(board, run)))
    if np.count_nonzero((clock >= (1.0 - _PLATEAU) * clock.max()) & is_free) < _ENOUGH:
        left[HIGH_CLOCK] = "the clock was hardly ever at its highest below the power limit"
    elif clock.max() * _LOW <= board.ranges[CLOCK].low:
        left[HIGH_CLOCK] = "the clock never rose"
    if LIMIT not in run.numbers and np.count_nonzero(held) < _ENOUGH:
        left[POWER_LIMIT] = "nothing ran at the power limit, and no column shows it"
    return left


def power_left_open(board: DeviceType, run: Run) -> dict[Coefficient, str]:
    """Which coefficients of the power the run does not show, and why.

    :param board: with the clocks and the limit of the run.
    """
    loads = loads_of(board, run)
    compute, slowed = loads["compute"], is_slowed(board, run)
    left: dict[Coefficient, str] = {}

    def need(coefficient: Coefficient, shown: Mask, why: str) -> None:
        if np.count_nonzero(shown) < _ENOUGH:
            left[coefficient] = why

    need(IDLE_POWER, idles(run), "the board was never idle")
    need(FULL_POWER, compute >= _LOADED, "no compute work at 100 %")
    need(CLOCKED_SHARE, ~slowed & ~works(run), "no process held a context without work, at the highest clock")
    need(EXPONENT, (compute >= _LOADED) & (run.numbers[CLOCK] < _LOW * board.ranges[CLOCK].high),
         "compute work never ran below 90 % of the highest clock")  # fmt: skip
    limited = is_limited(board, run)
    need(MATRIX_CLOCK, run.of_kind("tensor") & limited, "no matrix product (tensor work) ran at the power limit")
    need(MEMORY_WATTS, run.of_kind("memory") & works(run), "no memory-bound work")
    return left


def noise_left_open(board: DeviceType, run: Run) -> dict[Coefficient, str]:
    """Whether the run has quiet stretches."""
    few = np.count_nonzero(is_quiet(board, run)) < _QUIET
    return {NOISE: f"load and clock were steady in fewer than {_QUIET} samples"} if few else {}


def heat_left_open(board: DeviceType, run: Run, name: str) -> dict[Coefficient, str]:
    """Which coefficients of a temperature the run does not show, and why.

    :param name: of the quantity.
    """
    every = OF_HEAT[name]
    if name not in board.ranges:
        return {}
    if name not in run.numbers:
        return dict.fromkeys(every, "no column shows this temperature")
    celsius = run.numbers[name]
    if np.ptp(celsius) < _MOVES_KELVINS:
        return dict.fromkeys(every, f"the temperature moved by less than {_MOVES_KELVINS:g} K: no load, or no cooling")
    constant = every[2].of(board) or 0.0
    apart = float(np.median(run.steps_seconds))
    if apart > _CLOSE * constant:
        why = f"samples are {apart:g} s apart, and the catalog's constant is {constant:g} s"
        return {every[2]: why}
    return {}
