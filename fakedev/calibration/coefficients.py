"""The coefficients of a device type that a run can tell: their places in the type, and what a run must contain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from fakedev.calibration.runs import CLOCK, HEAT, MEMORY_HEAT, POWER
from fakedev.spec.device_types import DeviceType, Dynamics


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

OF_POWER: Final = (IDLE_POWER, FULL_POWER, CLOCKED_SHARE, EXPONENT, MATRIX_CLOCK, MEMORY_WATTS)
OF_HEAT: Final = {
    HEAT: (IDLE_HEAT, FULL_HEAT, THERMAL_SECONDS),
    MEMORY_HEAT: (MEMORY_IDLE_HEAT, MEMORY_FULL_HEAT, MEMORY_THERMAL_SECONDS),
}
#: All, in the order of reports.
EVERY: Final = (
    IDLE_CLOCK, HIGH_CLOCK, POWER_LIMIT, *OF_POWER, NOISE, *OF_HEAT[HEAT], *OF_HEAT[MEMORY_HEAT],
)  # fmt: skip
