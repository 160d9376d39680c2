"""What a device type says about a run: power from load and clock, temperature from power, and the whole simulated.

All of it calls the functions of the simulator's tick: the formulas exist once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fakedev.calibration.coefficients import dynamics_of
from fakedev.calibration.runs import CLOCK, HEAT, KINDS, LIMIT, MEMORY_HEAT, POWER, USAGE, Run
from fakedev.sim.boards import heat_and_power
from fakedev.sim.boards.arrays import Air
from fakedev.sim.boards.coefficients import Coefficients
from fakedev.sim.boards.conditions import Conditions, Setting
from fakedev.sim.boards.engines import Work
from fakedev.sim.boards.tick import Boards, Moment
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Mask
from fakedev.spec.device_types import DeviceType

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
    """The load of each kind of work, 0 to 1, shape (T,): the usage by that of a full load."""
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


def warming_watts(board: DeviceType, run: Run, name: str) -> Floats:
    """The measured power, as it warms core or memory: shape (T,)."""
    watts = run.numbers[POWER]
    if name == HEAT:
        return watts
    boards = boards_of(board, len(run.seconds))
    traffic = boards.engines.traffic(_work(boards, board, run), run.numbers[CLOCK] / board.ranges[CLOCK].high)
    used = heat_and_power.memory_load(boards.coefficients, traffic)
    return heat_and_power.memory_warming(boards.coefficients, used, watts)


def temperature_celsius(board: DeviceType, run: Run, name: str, warming: Floats, start_celsius: float) -> Floats:
    """The temperature of core or memory over the run: shape (T,).

    :param warming: from :func:`warming_watts`.
    :param start_celsius: at the first sample.
    """
    coefficients: Coefficients = boards_of(board, 1).coefficients
    setting = Setting.of(coefficients, Conditions())
    inlet = setting.inlet_celsius
    shown = np.empty(len(run.seconds))
    before = {name: np.array([start_celsius])}
    shown[0] = start_celsius
    for place, seconds in enumerate(run.steps_seconds.tolist(), 1):
        watts = warming[place : place + 1]
        before = {name: heat_and_power.temperature(coefficients, setting, inlet, name, watts, before, seconds)}
        shown[place] = before[name][0]
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
