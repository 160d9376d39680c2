"""The ``dynamics`` of a device type's file to the specification that the simulation uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from fakedev.config.problems import Report
from fakedev.config.values import Values
from fakedev.sim.boards import Boards
from fakedev.sim.device_types import WORK_KINDS, Dynamics, Range, WorkKind

#: Coefficients that divide something, or are lags: they must be more than nothing.
_POSITIVE: Final = (
    "power_limit_watts", "clock_power_exponent", "clock_step_mhz", "clock_fall_seconds",
    "thermal_seconds", "memory_thermal_seconds", "power_exponent",
)  # fmt: skip
#: Factors and exponents: whatever is over this is a slip, and would not be finite for long.
_MODERATE: Final = ("clock_power_exponent", "power", "power_exponent")
_MOST: Final = 100.0
_SHARES: Final = ("usage", "plain", "tensor", "memory", "transfer", "clock_sensitivity", "clocked_power_share")


def read_dynamics(values: Values, ranges: Mapping[str, Range], report: Report) -> Dynamics | None:
    """The dynamics that a device type gives, or None when it gives none.

    Problems: a quantity that dynamics need without a range, or with one of no width; coefficients out of range.
    """
    if not values.given("dynamics"):
        return None
    section: Values = values["dynamics"]
    before = len(report.sorted_problems())
    for name in Boards.NEEDED:
        span = ranges.get(name)
        if span is None or span.high <= span.low:
            report.problem(
                section.place, f"dynamics: {name} needs a range whose value at load 100 is over that at load 0"
            )
    for field in fields(Dynamics):
        if field.name != "kinds":
            _check(field.name, section[_key(field.name)], section, report)
    resume, slowdown = section["resume-celsius"], section["slowdown-celsius"]
    if resume > slowdown:
        report.problem(
            section.place_of("resume-celsius"),
            f"dynamics: resume-celsius {resume:g} is over slowdown-celsius {slowdown:g}: give both",
        )
    power, limit = ranges.get("power_watts"), section["power-limit-watts"]
    if power is not None and limit is not None and 0 < limit < power.low:
        report.problem(
            section.place_of("power-limit-watts"),
            f"dynamics: power-limit-watts {limit:g} is under the idle power {power.low:g}",
        )
    kinds = {name: _kind(work, report) for name, work in (section["work"] or {}).items()}
    if limit is None or len(report.sorted_problems()) > before:
        return None
    numbers: dict[str, Any] = {f.name: section[_key(f.name)] for f in fields(Dynamics) if f.name != "kinds"}
    return Dynamics(**numbers, kinds={**WORK_KINDS, **kinds})


def _kind(values: Values, report: Report) -> WorkKind:
    numbers = {field.name: values[_key(field.name)] for field in fields(WorkKind)}
    for name, number in numbers.items():
        _check(name, number, values, report)
    return WorkKind(**numbers)


def _check(name: str, number: float | None, values: Values, report: Report) -> None:
    if number is None:
        return
    if name in _POSITIVE and number <= 0:
        report.problem(values.place_of(_key(name)), f"dynamics: {_key(name)} must be over 0, not {number:g}")
    elif name in _SHARES and not 0 <= number <= 1:
        report.problem(values.place_of(_key(name)), f"dynamics: {_key(name)} {number:g} is not within 0 to 1")
    elif name in _MODERATE and number > _MOST:
        report.problem(values.place_of(_key(name)), f"dynamics: {_key(name)} {number:g} is over {_MOST:g}")
    elif number < 0:
        report.problem(values.place_of(_key(name)), f"dynamics: {_key(name)} must not be below 0, as {number:g} is")


def _key(field: str) -> str:
    return field.replace("_", "-")
