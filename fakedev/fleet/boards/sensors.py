"""What the sensors of boards show of their true state.

Counters, gauges and clocks of a board are read by different circuits at different moments, so that two of them never
agree to the last digit. A reading differs from the truth by an error that is a function of seed, board, quantity and
tick. Counters integrate the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import numpy as np

from fakedev.fleet.boards.coefficients import Coefficients
from fakedev.fleet.entities.randomness import Draws, Floats, Keys

_SM: Final = "sm_active_ratio"
_ENGINE: Final = "engine_active_ratio"
#: The largest error of a reading, as a share of it; chosen.
ERRORS: Final[Mapping[str, float]] = {
    _ENGINE: 0.004,
    _SM: 0.01,
    "sm_occupancy_ratio": 0.02,
    "tensor_active_ratio": 0.02,
    "fp64_active_ratio": 0.05,
    "fp32_active_ratio": 0.03,
    "fp16_active_ratio": 0.05,
    "memory_bandwidth_ratio": 0.02,
    "memory_usage_ratio": 0.05,
    "memory_read_bytes_per_second": 0.02,
    "memory_write_bytes_per_second": 0.02,
    "memory_power_watts": 0.01,
    "pcie_tx_bytes_per_second": 0.04,
    "pcie_rx_bytes_per_second": 0.02,
    "fabric_tx_bytes_per_second": 0.01,
    "fabric_rx_bytes_per_second": 0.01,
}
#: Pipes are no busier than multiprocessors, and these no busier than all engines.
_AT_MOST: Final[Mapping[str, str]] = {_SM: _ENGINE} | dict.fromkeys(
    ("tensor_active_ratio", "fp64_active_ratio", "fp32_active_ratio", "fp16_active_ratio"), _SM
)
#: Counters of links, one for each direction.
LINK_COUNTERS: Final = ("pcie_tx_bytes", "pcie_rx_bytes", "fabric_tx_bytes", "fabric_rx_bytes")
#: The largest part of the traffic that a counter of a link misses: chosen.
COUNTER_ERROR: Final = 0.004
_CARRIED: Final = frozenset(name for name in ERRORS if name.startswith(("pcie_", "fabric_")))
_NUMBERS: Final = {name: number for number, name in enumerate(ERRORS)}
_CLOCK: Final = "core_frequency_mhz"
_CLOCK_DRAW: Final = len(ERRORS) // 4 + 1
_POWER: Final = "power_watts"
#: The power at one moment, in place of its mean over the time that the sensor averages.
INSTANT: Final = "power_instant_watts"
#: The quantities whose readings differ from the truth.
READ: Final = frozenset({*ERRORS, _POWER, INSTANT, _CLOCK})
#: Standard deviation of the momentary power of work, as a share of what a board draws above idle. Kernels follow each
#: other, and a limiter holds only their mean: fitted to the p90 and p99 of Acme's A100s, 1.01 and 1.1 of their limit.
SWING: Final = 0.055
#: For how long the momentary power stays alike, in seconds: chosen. A longer average swings less.
_SWING_SECONDS: Final = 0.02
#: Four uniform numbers between -1 and 1 add up to one with this standard deviation.
_DEVIATION_OF_FOUR: Final = (4.0 / 3.0) ** 0.5
#: Standard deviation of the clock of a board at a limit, as a share: chosen, about two steps.
_DITHER: Final = 0.012
#: The part of a tick, at most, in which a board at a limit is not held: chosen.
_RELEASED: Final = 0.08
#: The least distance to the clock without a limit that a throttled board shows, as a share of a step.
_PART_OF_STEP: Final = 1e-3


def swing(average_seconds: Floats) -> Floats:
    """The standard deviation of what a sensor shows, as a share of the power above idle.

    :param average_seconds: for how long it averages; 0: not at all.
    """
    shares: Floats = SWING * np.sqrt(_SWING_SECONDS / np.maximum(average_seconds, _SWING_SECONDS))
    return shares


class PowerReading:
    """Readings of the power of some boards, or of parts that show their board's.

    :param average_seconds: for how long each sensor averages, shape (B,); 0: not at all.
    :param step_watts: its resolution, shape (B,); 0: any number.
    :param keys: of the randomness of what is read, shape (B,).
    """

    def __init__(self, average_seconds: Floats, step_watts: Floats, seed: int, keys: Keys) -> None:
        self._step_watts = step_watts
        self._swing = swing(average_seconds)
        self._draws = Draws(seed, keys, "power reading")

    @classmethod
    def of(cls, boards: Coefficients, seed: int, keys: Keys) -> Self:
        """Readings of the power of boards."""
        return cls(boards.power_average_seconds, boards.power_step_watts, seed, keys)

    def mean(self, watts: Floats, above_idle: Floats, tick: int) -> Floats:
        """What the sensor shows.

        :param watts: the true power.
        :param above_idle: the part of it above the power without work.
        """
        return self._read(watts, self._swing * above_idle, tick, 0)

    def instant(self, watts: Floats, above_idle: Floats, tick: int) -> Floats:
        """The power at a moment; parameters as of :meth:`mean`."""
        return self._read(watts, SWING * above_idle, tick, 1)

    def _read(self, watts: Floats, deviation: Floats, tick: int, draw: int) -> Floats:
        normal = self._draws.signed(tick, draw).sum(axis=0) / _DEVIATION_OF_FOUR
        # A board without work breathes by a thousandth.
        read: Floats = watts + (deviation + 1e-3 * watts) * normal
        steps = np.where(self._step_watts > 0, self._step_watts, 1.0)
        read = np.where(self._step_watts > 0, np.rint(read / steps) * steps, read)
        return np.maximum(read, 0.0)


class Sensors:
    """The sensors of B boards; arrays of shape (B,)."""

    def __init__(self, boards: Coefficients, seed: int, keys: Keys) -> None:
        self.boards = boards
        self.draws = Draws(seed, keys, "sensors")
        self.power = PowerReading.of(boards, seed, keys)
        self._releases = Draws(seed, keys, "releases of clocks")
        self._counts = Draws(seed, keys, "counts of links")
        self._counters = Draws(seed, keys, "counters of links").signed(0)

    def held_share(self, tick: int) -> Floats:
        """The share of a tick in which limits hold the clocks of boards that are throttled, shape (B,)."""
        share: Floats = 1.0 - _RELEASED * self._releases.uniform(tick)
        return share

    def counted_shares(self, tick: int) -> Mapping[str, Floats]:
        """The share of a link's traffic in a tick that the counter of each direction counts, by counter."""
        errors = 0.5 * (self._counters + self._counts.signed(tick))
        return dict(zip(LINK_COUNTERS, 1.0 + 0.5 * COUNTER_ERROR * (errors - 1.0), strict=True))


class Readings:
    """What sensors show in a tick; nothing is drawn before it is read.

    :param true: the true values by quantity.
    """

    def __init__(self, sensors: Sensors, true: Mapping[str, Floats], tick: int) -> None:
        self._sensors = sensors
        self._true = true
        self._tick = tick
        self._fours: dict[int, Floats] = {}

    def of(self, name: str) -> Floats:
        """The reading of a quantity of :data:`READ`."""
        if name in (_POWER, INSTANT):
            watts, power = self._true[_POWER], self._sensors.power
            above = np.maximum(watts - self._sensors.boards.idle_watts, 0.0)
            return (power.mean if name == _POWER else power.instant)(watts, above, self._tick)
        if name == _CLOCK:
            return self._clock()
        error = self._signed(_NUMBERS[name])
        if name in _CARRIED:
            # A sampling window loses its edges: no link carries more than it can.
            error = 0.5 * (error - 1.0)
        values = self._true[name] * (1.0 + ERRORS[name] * error)
        if not name.endswith("_ratio"):
            return values
        return np.minimum(values, self.of(_AT_MOST[name]) if name in _AT_MOST else 1.0)

    def _signed(self, number: int) -> Floats:
        """One of the numbers between -1 and 1 of each board, of which four come with a draw."""
        if number // 4 not in self._fours:
            self._fours[number // 4] = self._sensors.draws.signed(self._tick, number // 4)
        numbers: Floats = self._fours[number // 4][number % 4]
        return numbers

    def _clock(self) -> Floats:
        """The core clock; where a limit holds it, it moves around its mean in steps."""
        true, boards = self._true, self._sensors.boards
        held = (true["throttled_power"] + true["throttled_thermal"]) > 0
        if not held.any():
            return true[_CLOCK]
        normal = self._sensors.draws.signed(self._tick, _CLOCK_DRAW).sum(axis=0) / _DEVIATION_OF_FOUR
        moved = true["core_frequency_mean_mhz"] * (1.0 + _DITHER * normal)
        most = true["core_frequency_request_mhz"] - _PART_OF_STEP * boards.step_mhz
        return np.where(held, boards.supported_mhz(np.minimum(moved, most)), true[_CLOCK])
