"""The model of a run by a device type (power from load and clock, temperature from power), and its coefficients.

All of it calls the functions of the simulator's tick: the formulas exist once. A coefficient that a run can determine
has a place in the type, and what a run must contain for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from fakedev.calibrate.runs import CLOCK, HEAT, KINDS, LIMIT, MEMORY_HEAT, POWER, USAGE, Run
from fakedev.fleet.boards import heat_and_power
from fakedev.fleet.boards.arrays import Air
from fakedev.fleet.boards.coefficients import Coefficients
from fakedev.fleet.boards.conditions import Conditions, Setting
from fakedev.fleet.boards.engines import Work
from fakedev.fleet.boards.tick import Boards, Moment
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Mask
from fakedev.fleet.spec.device_types import DeviceType, Dynamics


@dataclass(frozen=True)
class Coefficient:
    """A coefficient.

    :param name: a quantity, for an end of its range; else a field of :class:`Dynamics`.
    :param unit: for readers; empty for shares and exponents.
    :param needs: what a run must contain to tell it, as advice.
    :param end: ``low`` or ``high``, the value at load 0 or at load 100; empty for a field of the dynamics.
    """

    name: str
    unit: str
    needs: str
    end: str = ""

    @property
    def title(self) -> str:
        """Its name in a device type's file, with the end of the range."""
        at = {"low": " at load 0", "high": " at load 100"}
        return f"{self.name}{at[self.end]}" if self.end else self.name.replace("_", "-")

    def of(self, board: DeviceType) -> float | None:
        """Its value in a type; None where the type has none."""
        if self.end:
            found = board.ranges.get(self.name)
            return None if found is None else float(getattr(found, self.end))
        value = getattr(board.dynamics, self.name)
        return None if value is None else float(value)

    def put(self, board: DeviceType, value: float) -> DeviceType:
        """The type with another value of it."""
        if self.end:
            changed = replace(board.ranges[self.name], **{self.end: value})
            return replace(board, ranges={**board.ranges, self.name: changed})
        changed_dynamics: dict[str, Any] = {self.name: value}
        return replace(board, dynamics=replace(dynamics_of(board), **changed_dynamics))


def dynamics_of(board: DeviceType) -> Dynamics:
    """The dynamics of a type.

    :raises ValueError: when it has none.
    """
    if board.dynamics is None:
        raise ValueError(f"{board.name} has no dynamics, and nothing to calibrate: choose a type with dynamics")
    return board.dynamics


IDLE_CLOCK: Final = Coefficient(CLOCK, "MHz", "a minute without any process", "low")
HIGH_CLOCK: Final = Coefficient(CLOCK, "MHz", "work below the power limit, with the clock not locked", "high")
POWER_LIMIT: Final = Coefficient(
    "power_limit_watts", "W", "a column with the limit, or work that is held by it (a large matrix product)"
)
IDLE_POWER: Final = Coefficient(POWER, "W", "a minute without any process", "low")
FULL_POWER: Final = Coefficient(POWER, "W", "a minute of compute work at 100 %", "high")
CLOCKED_SHARE: Final = Coefficient(
    "clocked_power_share", "", "a minute without work in which a process holds a context, and the clock stays high"
)
EXPONENT: Final = Coefficient(
    "clock_power_exponent", "", "compute work at a clock, locked or held by a power limit, below 90 % of the highest"
)
MATRIX_CLOCK: Final = Coefficient("matrix_clock_mhz", "MHz", "a large matrix product (work: tensor) at the power limit")
MEMORY_WATTS: Final = Coefficient("memory_bound_watts", "W", "work that the memory's bandwidth limits (work: memory)")
IDLE_HEAT: Final = Coefficient(HEAT, "C", "load and rest, each for two minutes: the temperature must change", "low")
FULL_HEAT: Final = replace(IDLE_HEAT, end="high")
THERMAL_SECONDS: Final = Coefficient(
    "thermal_seconds", "s", "the first minutes of load or cooling, with samples closer than a quarter of the constant"
)
MEMORY_IDLE_HEAT: Final = replace(
    IDLE_HEAT, name=MEMORY_HEAT, needs="a column with the memory's temperature, and load and rest"
)
MEMORY_FULL_HEAT: Final = replace(MEMORY_IDLE_HEAT, end="high")
MEMORY_THERMAL_SECONDS: Final = replace(THERMAL_SECONDS, name="memory_thermal_seconds", needs=MEMORY_IDLE_HEAT.needs)
NOISE: Final = Coefficient("power_noise", "", "a minute in which load and clock do not change")

POWER_COEFFICIENTS: Final = (IDLE_POWER, FULL_POWER, CLOCKED_SHARE, EXPONENT, MATRIX_CLOCK, MEMORY_WATTS)
HEAT_COEFFICIENTS: Final = {
    HEAT: (IDLE_HEAT, FULL_HEAT, THERMAL_SECONDS),
    MEMORY_HEAT: (MEMORY_IDLE_HEAT, MEMORY_FULL_HEAT, MEMORY_THERMAL_SECONDS),
}
#: All, in the order of reports.
EVERY: Final = (
    IDLE_CLOCK, HIGH_CLOCK, POWER_LIMIT, *POWER_COEFFICIENTS, NOISE, *HEAT_COEFFICIENTS[HEAT],
    *HEAT_COEFFICIENTS[MEMORY_HEAT],
)  # fmt: skip


#: Load below this counts as none.
NO_LOAD = 0.005
#: A board is at its limit from this share of it on.
AT_LIMIT = 0.97
#: A clock from this share of the highest on is not lowered.
FULL_CLOCK = 0.985


def quiet(board: DeviceType) -> DeviceType:
    """The type of one board in steady air: no noise, no spread, no drift."""
    plain = replace(
        dynamics_of(board), power_noise=0.0, power_step_watts=0.0, spread=0.0, inlet_spread_celsius=0.0,
        inlet_drift_celsius=0.0,
    )  # fmt: skip
    return replace(board, dynamics=plain)


def loads_of(board: DeviceType, run: Run) -> dict[str, Floats]:
    """The load of each kind of work, 0 to 1, shape (T,): usage divided by the usage of a full load."""
    kinds = dynamics_of(board).kinds
    return {
        kind: np.where(run.of_kind(kind), np.clip(run.numbers[USAGE] / kinds[kind].usage, 0.0, 1.0), 0.0)
        for kind in KINDS
        if kind in kinds and kinds[kind].usage > 0
    }


def limit_at(board: DeviceType, run: Run) -> Floats:
    """The power limit of each sample, shape (T,)."""
    given = run.numbers.get(LIMIT)
    return np.full(len(run.seconds), dynamics_of(board).power_limit_watts) if given is None else given


def works(run: Run) -> Mask:
    """Samples with work."""
    return run.numbers[USAGE] > NO_LOAD


def is_slowed(board: DeviceType, run: Run) -> Mask:
    """Samples with a clock below the type's highest."""
    return run.numbers[CLOCK] < FULL_CLOCK * board.ranges[CLOCK].high


def is_limited(board: DeviceType, run: Run) -> Mask:
    """Samples in which the power limit lowers the clock."""
    return works(run) & is_slowed(board, run) & (run.numbers[POWER] >= AT_LIMIT * limit_at(board, run))


def boards_of(board: DeviceType, count: int) -> Boards:
    """Equal boards of the type."""
    return Boards([quiet(board)], np.zeros(count, np.int64), Air.usual(count), 0, np.zeros(count, np.uint64))


def _work(boards: Boards, board: DeviceType, run: Run) -> Work:
    loads = loads_of(board, run)
    return boards.work(loads, loads, {}, run.numbers[CLOCK] >= FULL_CLOCK * board.ranges[CLOCK].high)


def power_watts(board: DeviceType, run: Run) -> Floats:
    """The power of each sample, from its load and its measured clock: each sample is a board of its own, shape (T,).

    A throttled board alternates between two supported clocks and shows the lower one: its mean is half a step more.
    """
    boards = boards_of(board, len(run.seconds))
    coefficients = boards.coefficients
    low, high = board.ranges[CLOCK].low, board.ranges[CLOCK].high
    half_mhz = 0.5 * dynamics_of(board).clock_step_mhz
    clock = np.clip(run.numbers[CLOCK] + np.where(is_limited(board, run), half_mhz, 0.0), low, high)
    share = heat_and_power.work_share(coefficients, _work(boards, board, run))
    return heat_and_power.board_power(coefficients, share, clock, coefficients.raised(clock))


def memory_used(board: DeviceType, run: Run) -> Floats:
    """Memory traffic above idle, divided by the traffic of plain full load: shape (T,)."""
    boards = boards_of(board, len(run.seconds))
    traffic = boards.engines.traffic(_work(boards, board, run), run.numbers[CLOCK] / board.ranges[CLOCK].high)
    return heat_and_power.memory_load(boards.coefficients, traffic)


def temperature_celsius(board: DeviceType, run: Run, name: str, used: Floats, start_celsius: float) -> Floats:
    """The temperature of core or memory over the run, from the measured power: shape (T,).

    :param used: from :func:`memory_used`; of the core it is not used.
    :param start_celsius: at the first sample.
    """
    coefficients: Coefficients = boards_of(board, 1).coefficients
    setting = Setting.of(coefficients, Conditions())
    inlet, power = setting.inlet_celsius, run.numbers[POWER]
    shown = np.empty(len(run.seconds))
    celsius = np.array([start_celsius])
    shown[0] = start_celsius
    for place, seconds in enumerate(run.steps_seconds.tolist(), 1):
        at, before = slice(place, place + 1), {name: celsius}
        if name == HEAT:
            celsius = heat_and_power.temperature(coefficients, setting, inlet, power[at], before, seconds)
        else:
            celsius = heat_and_power.memory_temperature(
                coefficients, setting, inlet, power[at], used[at], before, seconds
            )
        shown[place] = celsius[0]
    return shown


def simulated(board: DeviceType, run: Run) -> dict[str, Floats]:
    """What a simulated board of the type shows in the run, sample by sample: shape (T,) by quantity.

    It gets the load, whether a context keeps its clock high, its power limit, and a clock that is locked, and starts as
    warm as the measured one. A clock below the highest that no power limit explains counts as locked.
    """
    boards = boards_of(board, 1)
    loads, limits = loads_of(board, run), limit_at(board, run)
    locked = works(run) & is_slowed(board, run) & ~is_limited(board, run)
    highest = np.where(locked, run.numbers[CLOCK], np.nan)
    awake = works(run) | ~is_slowed(board, run)
    names = [name for name in (POWER, CLOCK, HEAT, MEMORY_HEAT) if name in run.numbers and name in board.ranges]
    shown = {name: np.empty(len(run.seconds)) for name in names}
    before = None
    steps = [0.0, *run.steps_seconds.tolist()]
    for place, seconds in enumerate(steps):
        at = slice(place, place + 1)
        boards.set_conditions(Conditions(power_limit_watts=limits[at], highest_mhz=highest[at]))
        now = {kind: load[at] for kind, load in loads.items()}
        work = boards.work(now, now, {}, awake[at])
        after = boards.step(work, before, Moment(place, float(run.seconds[place])), seconds)
        if before is None:
            after |= {name: run.numbers[name][:1] for name in (HEAT, MEMORY_HEAT) if name in names}
        for name, values in shown.items():
            values[place] = after[name][0]
        before = after
    return shown
