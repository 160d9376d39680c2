"""The fit of coefficients to a run by least squares within bounds, and what the samples leave uncertain.

Least squares are by SciPy, with the standard errors of the solution. The contents of a run decide which coefficients
it leaves open, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fakedev.calibrate.model import (
    AT_LIMIT,
    CLOCKED_SHARE,
    EVERY,
    EXPONENT,
    FULL_POWER,
    HEAT_COEFFICIENTS,
    HIGH_CLOCK,
    IDLE_CLOCK,
    IDLE_POWER,
    MATRIX_CLOCK,
    MEMORY_WATTS,
    NOISE,
    POWER_COEFFICIENTS,
    POWER_LIMIT,
    Coefficient,
    dynamics_of,
    is_limited,
    is_slowed,
    limit_at,
    loads_of,
    memory_used,
    power_watts,
    quiet,
    simulated,
    temperature_celsius,
    works,
)
from fakedev.calibrate.runs import CLOCK, HEAT, LIMIT, MEMORY_HEAT, POWER, USAGE, Run, RunError
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Mask
from fakedev.fleet.spec.device_types import DeviceType

#: Values of coefficients to residuals: shape (T,).
Residuals = Callable[[Floats], Floats]
#: Singular values of a Jacobian below this share of the largest count as 0.
_SINGULAR: Final = 1e-9
#: Evaluations after which a fit ends; three to ten are usual.
_MOST_STEPS: Final = 60


def least_squares(residuals: Residuals, start: Floats, lows: Floats, highs: Floats) -> tuple[Floats, Floats]:
    """The values with the least sum of squares, within bounds, and their standard errors.

    Large residuals count less (soft L1): changes of the load fall between two samples. The standard errors are those of
    linear least squares at the solution: the diagonal of the inverse of J'J, times the mean square.
    """
    from scipy.optimize import least_squares as solved  # noqa: PLC0415 - an extra, and slow to import

    scale = np.maximum(np.abs(start), 1e-3)
    found = solved(residuals, start, bounds=(lows, highs), loss="soft_l1", x_scale=scale, max_nfev=_MOST_STEPS)
    values = np.asarray(found.x, dtype=np.float64)
    _, sizes, directions = np.linalg.svd(np.asarray(found.jac) * np.maximum(np.abs(values), 1e-9), full_matrices=False)
    sizes = np.maximum(sizes, _SINGULAR * max(float(sizes.max()), _SINGULAR))
    spread = np.sqrt(2.0 * float(found.cost) / max(len(found.fun) - len(start), 1))
    errors = spread * np.sqrt(np.sum((directions.T / sizes) ** 2, axis=1))
    return values, errors * np.maximum(np.abs(values), 1e-9)


#: Minimum samples that show something.
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
    """Samples with the load and clock of the two before, and not levelled by a power limit."""
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


def heat_left_open(board: DeviceType, run: Run, name: str) -> dict[Coefficient, str]:
    """Which coefficients of a temperature the run does not show, and why.

    :param name: of the quantity.
    """
    every = HEAT_COEFFICIENTS[name]
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


#: The samples do not determine a coefficient whose standard error is over this share of it.
MOST_UNCERTAIN: Final = 0.05
#: Residuals up to these count in full, larger ones less: a share of the power, kelvins.
_POWER_SCALE, _HEAT_SCALE = 0.02, 1.0
#: Digits that are kept of a coefficient.
_DIGITS: Final = 5
#: The share of samples that counts for the noise: the others are changes of the load.
_MOST_OF_NOISE: Final = 0.95
#: The largest noise that is taken from a run.
_LARGEST_NOISE: Final = 0.5

#: The residual of values with which no board can be simulated.
_FAR: Final = 1e6
_OTHER_BOARD: Final = "is the run of such a device? --device names its type"


@dataclass(frozen=True)
class Finding:
    """What became of a coefficient.

    :param before: the catalog's value; None where the type has none.
    :param value: the fitted one; None: the catalog's is kept.
    :param uncertainty: the standard error as a share of the value; None where no fit gave it.
    :param why: why it is kept; empty for fitted ones.
    """

    coefficient: Coefficient
    before: float | None
    value: float | None
    uncertainty: float | None = None
    why: str = ""


@dataclass(frozen=True)
class Difference:
    """Measured less simulated values of a quantity: the root of the mean square, and the largest, in its unit."""

    quantity: str
    rms: float
    largest: float


@dataclass(frozen=True)
class Calibration:
    """The result.

    :param board: the type with the fitted coefficients.
    :param run: the run that it was fitted to.
    :param findings: of each coefficient that the type can have, in the order of :data:`EVERY`.
    :param simulated: what the fitted type shows in the same run, by quantity: shape (T,).
    """

    board: DeviceType
    run: Run
    findings: tuple[Finding, ...]
    simulated: Mapping[str, Floats]

    def differences(self) -> tuple[Difference, ...]:
        """How far measured and simulated values are apart."""
        found = []
        for name, values in self.simulated.items():
            apart = self.run.numbers[name] - values
            found.append(Difference(name, float(np.sqrt(np.mean(apart**2))), float(np.abs(apart).max())))
        return tuple(found)


# A step of the fit may try values that no board has; results are checked.
@np.errstate(all="ignore")
def calibrate(board: DeviceType, run: Run) -> Calibration:
    """The type with the coefficients that the run determines; all others stay as they are.

    In order: clocks and power limit, which samples show; power; noise; temperatures.

    :param board: the catalog's type.
    :raises ValueError: when the type has no dynamics.
    :raises RunError: when the run does not belong to such a board.
    :raises ImportError: when SciPy is not installed.
    """
    fitted = _Fitted(quiet(board), run)
    fitted.read_clocks()
    fitted.fit_power()
    fitted.read_noise()
    for name in (HEAT, MEMORY_HEAT):
        fitted.fit_heat(name)
    changed, findings = board, []
    absent = () if MEMORY_HEAT in board.ranges else HEAT_COEFFICIENTS[MEMORY_HEAT]
    for each in EVERY:
        if each in absent:
            continue
        value, uncertainty = fitted.values.get(each, (None, None))
        if value is not None:
            changed = each.put(changed, value)
        findings.append(Finding(each, each.of(board), value, uncertainty, fitted.left.get(each, "")))
    shown = simulated(changed, run)
    if not all(np.isfinite(values).all() for values in shown.values()):
        raise RunError(f"the run gives a board that cannot be simulated: {_OTHER_BOARD}")
    return Calibration(changed, run, tuple(findings), shown)


class _Fitted:
    """A type whose coefficients are fitted step by step.

    :ivar values: value and uncertainty of each coefficient that the run determines.
    :ivar left: why others are left as they are.
    """

    def __init__(self, board: DeviceType, run: Run) -> None:
        self.board = board
        self.run = run
        self.values: dict[Coefficient, tuple[float, float | None]] = {}
        self.left: dict[Coefficient, str] = {}

    def _take(self, coefficient: Coefficient, value: float, uncertainty: float | None = None) -> None:
        value = float(f"{value:.{_DIGITS}g}")
        self.board = coefficient.put(self.board, value)
        self.values[coefficient] = value, uncertainty

    def read_clocks(self) -> None:
        """The ends of the clock and the power limit, where samples show them."""
        numbers, left = self.run.numbers, clocks_left_open(self.board, self.run)
        self.left |= left
        if HIGH_CLOCK not in left:
            self._take(HIGH_CLOCK, float(numbers[CLOCK].max()))
        if IDLE_CLOCK not in left:
            self._take(IDLE_CLOCK, float(numbers[CLOCK][idles(self.run)].min()))
        if POWER_LIMIT not in left:
            held = numbers[POWER][plateau(self.run)]
            self._take(POWER_LIMIT, float(numbers[LIMIT].max() if LIMIT in numbers else np.median(held)))
        self._check_range(CLOCK)

    def _check_range(self, name: str) -> None:
        """
        :raises RunError: when a quantity is not greater under load than at rest.
        """
        ends = self.board.ranges[name]
        if not ends.low < ends.high:
            raise RunError(f"{name} would be {ends.low:g} at rest and {ends.high:g} under load: {_OTHER_BOARD}")

    def fit_power(self) -> None:
        left = power_left_open(self.board, self.run)
        watts = self.run.numbers[POWER]
        most, high = float(watts.max()), self.board.ranges[CLOCK].high
        bounds = {
            IDLE_POWER: (1e-3, most), FULL_POWER: (1e-3, 3.0 * most), CLOCKED_SHARE: (0.0, 0.95), EXPONENT: (1.0, 5.0),
            MATRIX_CLOCK: (0.1 * high, 2.0 * high), MEMORY_WATTS: (1e-3, 3.0 * most),
        }  # fmt: skip
        usual = {MATRIX_CLOCK: 0.8 * high, MEMORY_WATTS: 0.5 * most}
        known = self._fit(
            [each for each in POWER_COEFFICIENTS if each not in left], bounds, usual,
            lambda board: (power_watts(board, self.run) - watts) / (_POWER_SCALE * np.maximum(watts, 1.0)),
        )  # fmt: skip
        self.left |= left | known
        self._check_range(POWER)

    def read_noise(self) -> None:
        """The largest fluctuation of the power, from the differences that the fit leaves in quiet samples.

        The fluctuation is uniform: 19 of 20 samples are within 19/20 of the largest.
        """
        steady = is_quiet(self.board, self.run)
        if np.count_nonzero(steady) < _QUIET:
            self.left[NOISE] = f"load and clock were steady in fewer than {_QUIET} samples"
            return
        expected = power_watts(self.board, self.run)
        shares = (np.abs(self.run.numbers[POWER] - expected) / np.maximum(expected, 1.0))[steady]
        noise = float(np.quantile(shares, _MOST_OF_NOISE)) / _MOST_OF_NOISE
        self.values[NOISE] = float(f"{min(noise, _LARGEST_NOISE):.{_DIGITS}g}"), None

    def fit_heat(self, name: str) -> None:
        left = heat_left_open(self.board, self.run, name)
        if name not in self.board.ranges:
            return
        wanted = [coefficient for coefficient in HEAT_COEFFICIENTS[name] if coefficient not in left]
        if not wanted:
            self.left |= left
            return
        before, measured = self.board, self.run.numbers[name]
        low, high = float(measured.min()), float(measured.max())
        wide = high - low
        ends = (low - 2.0 * wide, high + 5.0 * wide)
        bounds = {coefficient: (0.1, 1e3) if not coefficient.end else ends for coefficient in wanted}
        used = memory_used(self.board, self.run)
        start = float(np.mean(measured[:3]))
        known = self._fit(
            wanted, bounds, {},
            lambda board: (temperature_celsius(board, self.run, name, used, start) - measured) / _HEAT_SCALE,
        )  # fmt: skip
        if any(coefficient.end for coefficient in known):
            # Half of the line of temperature over power says nothing, and the time constant goes with the line.
            self.board = before
            for coefficient in HEAT_COEFFICIENTS[name]:
                self.values.pop(coefficient, None)
                known.setdefault(coefficient, "the temperature at rest or under load is uncertain")
        self.left |= left | known
        self._check_range(name)

    def _fit(
        self, wanted: Sequence[Coefficient], bounds: Mapping[Coefficient, tuple[float, float]],
        usual: Mapping[Coefficient, float], residuals: Callable[[DeviceType], Floats],
    ) -> dict[Coefficient, str]:  # fmt: skip
        """Fit coefficients; those that the samples leave uncertain are fixed, the worst first, and why is returned."""
        base, wanted, left = self.board, list(wanted), {}
        while wanted:
            def of_values(values: Floats, chosen: tuple[Coefficient, ...] = tuple(wanted)) -> Floats:
                return np.nan_to_num(residuals(_put(base, chosen, values)), nan=_FAR, posinf=_FAR, neginf=-_FAR)

            lows, highs = np.array([bounds[coefficient] for coefficient in wanted]).T
            given = [usual.get(each, 0.0) if each.of(base) is None else each.of(base) for each in wanted]
            start = np.clip(np.array(given, dtype=np.float64), lows + 1e-6, highs - 1e-6)
            values, errors = least_squares(of_values, start, lows, highs)
            shares = errors / np.maximum(np.abs(values), 1e-9)
            worst = int(np.argmax(shares))
            if shares[worst] <= MOST_UNCERTAIN:
                for coefficient, value, share in zip(wanted, values.tolist(), shares.tolist(), strict=True):
                    self._take(coefficient, value, share)
                break
            share = min(float(shares[worst]), 9.99)
            left[wanted.pop(worst)] = f"the samples leave it uncertain by {share:.0%}"
        return left


def _put(board: DeviceType, chosen: Sequence[Coefficient], values: Floats) -> DeviceType:
    for coefficient, value in zip(chosen, values.tolist(), strict=True):
        board = coefficient.put(board, value)
    return board
