"""The coefficients of a board's relations: the keys of ``dynamics``, and the specification."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from fakedev.fleet.boards.tick import Boards
from fakedev.fleet.spec.device_types import SWITCHES, Dynamics, Range
from fakedev.fleet.spec.quantities import MEMORY_TRAFFIC
from fakedev.fleet.spec.work_kinds import WORK_KINDS, WorkKind
from fakedev.schema.places import Report
from fakedev.schema.sections import Key, Section, Values
from fakedev.schema.types import Choice, ListOf, MapOf, keys_from

#: Coefficients that are divisors: they must be above 0.
_POSITIVE: Final = ("power_limit_watts", "clock_power_exponent", "clock_step_mhz", "power_exponent")
#: Factors and exponents: larger ones are mistakes, and results would overflow.
_MODERATE: Final = ("clock_power_exponent", "power", "power_exponent")
_MOST: Final = 100.0
_SHARES: Final = (
    "usage", "plain", "tensor", "copy", "encoder", "decoder", "render", "memory", "read", "transfer", "fabric",
    "clock_sensitivity", "clocked_power_share", "hang_power_share",
)  # fmt: skip
#: Temperatures in ascending order.
_ASCENDING: Final = ("resume-celsius", "slowdown-celsius", "hardware-slowdown-celsius", "shutdown-celsius")
_TEMPERATURES: Final = ("temperature_celsius", "memory_temperature_celsius")


WORK = Section(
    "device type.dynamics.work",
    keys_from(WorkKind),
    doc="The effect of a full load of one kind of work; shares of 1.",
)

DYNAMICS = Section(
    "device type.dynamics",
    (
        *keys_from(Dynamics),
        Key(
            "work",
            MapOf(WORK, words="mapping of kinds of work to shares"),
            "Kinds of work that differ from the built-in ones, or are added.",
            default={},
        ),
        Key(
            "without",
            ListOf(Choice(tuple(SWITCHES)), words="list of relations"),
            "Relations that the board does not have.",
            default=(),
        ),
    ),
    doc="How clocks, power and heat act on each other. Without it all quantities follow the load directly.",
)


def read_dynamics(section: Values | None, ranges: Mapping[str, Range], report: Report) -> Dynamics | None:
    """The dynamics that a section gives to a device with these ranges, or None when there are none.

    Problems: a quantity that dynamics need without a range, or with one of no width; coefficients out of range, or
    that do not go with each other.
    """
    if section is None:
        return None
    before = len(report.sorted_problems())
    for name in Boards.NEEDED:
        span = ranges.get(name)
        if span is None or span.high <= span.low:
            report.problem(
                section.place, f"dynamics: {name} needs a range whose value at load 100 is over that at load 0"
            )
    _check_numbers(Dynamics, section, report)
    _check_temperatures(section, ranges, report)
    _check_power(section, ranges, report)
    for name in MEMORY_TRAFFIC:
        if name in ranges:
            report.problem(
                section.place, f"dynamics: {name} follows from memory-bytes-per-second here, and has no range"
            )
    for work in section["work"].values():
        _check_numbers(WorkKind, work, report)
    if section["power-limit-watts"] is None or len(report.sorted_problems()) > before:
        return None
    kinds = {name: work.build(WorkKind) for name, work in section["work"].items()}
    return section.build(Dynamics, kinds={**WORK_KINDS, **kinds})


def _check_temperatures(section: Values, ranges: Mapping[str, Range], report: Report) -> None:
    for lower, upper in pairwise([key for key in _ASCENDING if section[key] is not None]):
        low, high = section[lower], section[upper]
        if low > high:
            place = section.place_of(lower if section.given(lower) else upper)
            report.problem(place, f"dynamics: {lower} {low:g} is over {upper} {high:g}: give both")
    inlet = section["inlet-celsius"]
    for name in _TEMPERATURES:
        if inlet is not None and name in ranges and inlet > ranges[name].low:
            report.problem(
                section.place_of("inlet-celsius"),
                f"dynamics: inlet-celsius {inlet:g} is over {name} {ranges[name].low:g} at load 0",
            )


def _check_power(section: Values, ranges: Mapping[str, Range], report: Report) -> None:
    power, memory, limit = ranges.get("power_watts"), ranges.get("memory_power_watts"), section["power-limit-watts"]
    if power is not None and limit is not None and 0 < limit < power.low:
        report.problem(
            section.place_of("power-limit-watts"),
            f"dynamics: power-limit-watts {limit:g} is under the idle power {power.low:g}",
        )
    if section["clock-power-exponent"] is not None and 0 < section["clock-power-exponent"] < 1:
        report.problem(
            section.place_of("clock-power-exponent"),
            f"dynamics: clock-power-exponent {section['clock-power-exponent']:g} is under 1",
        )
    if power is not None and memory is not None and (memory.low > power.low or memory.high > power.high):
        report.problem(section.place, "dynamics: memory_power_watts is part of power_watts, and must not be over it")


def _check_numbers(kind: type, values: Values, report: Report) -> None:
    """Reports coefficients of a section that are out of range."""
    for key, name in values.section.fields_of(kind).items():
        number, place = values[key], values.place_of(key)
        if not isinstance(number, int | float):
            continue
        if name in _POSITIVE and number <= 0:
            report.problem(place, f"dynamics: {key} must be over 0, not {number:g}")
        elif name in _SHARES and not 0 <= number <= 1:
            report.problem(place, f"dynamics: {key} {number:g} is not within 0 to 1")
        elif name in _MODERATE and number > _MOST:
            report.problem(place, f"dynamics: {key} {number:g} is over {_MOST:g}")
        elif number < 0 and name != "inlet_celsius":
            report.problem(place, f"dynamics: {key} must not be below 0, as {number:g} is")
