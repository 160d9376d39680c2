"""The coefficients of a board's relations: the keys of ``dynamics``, and the specification."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from itertools import pairwise
from typing import Any, Final

from fakedev.config.schema.nodes import Report
from fakedev.config.schema.schema import Key, Section, Values
from fakedev.config.schema.types import Choice, Integer, ListOf, MapOf, Number
from fakedev.sim.boards.tick import Boards
from fakedev.spec.device_types import SWITCHES, WORK_KINDS, Dynamics, Range, WorkKind
from fakedev.spec.quantities import MEMORY_TRAFFIC

#: Coefficients that are divisors: they must be above 0.
_POSITIVE: Final = ("power_limit_watts", "clock_power_exponent", "clock_step_mhz", "power_exponent")
#: Keys that are no coefficients.
_OTHERS: Final = ("kinds", "without")
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
_WORK: Final = {
    "usage": "The usage that the board reports.",
    "plain": "Share of the ranges of engines, memory bandwidth and links that it uses.",
    "tensor": "Further share of the tensor pipes.",
    "copy": "Further share of the copy engines.",
    "encoder": "Further share of the media encoders.",
    "decoder": "Further share of the media decoders.",
    "render": "Further share of the 3D engines.",
    "memory": "Further share of the memory bandwidth.",
    "read": "Share of its memory traffic that reads.",
    "transfer": "Further share of the PCIe link, each way.",
    "fabric": "Further share of the links to other boards, each way.",
    "power": "Dynamic power, as a share of that of plain full load.",
    "power_exponent": "Power is proportional to load to this power.",
    "clock_sensitivity": "Share of a throttled clock's loss by which the work and its traffic become slower.",
}
#: Field to its meaning and its unit.
_DYNAMICS: Final = {
    "power_limit_watts": ("The power cap: the board lowers its clocks to stay within it.", "watts"),
    "power_limit_seconds": ("Time constant with which the power cap lowers clocks; lags may be 0.", "seconds"),
    "clocked_power_share": ("Share of the dynamic power that raised clocks use without work.", ""),
    "clock_power_exponent": ("The power of work is proportional to the clock to this power; 1 or more.", ""),
    "hang_power_share": ("Power of a board that hangs, as a share of plain full load.", ""),
    "clock_step_mhz": ("Throttled clocks are a whole number of these.", "MHz"),
    "clock_fall_seconds": ("From the highest clock to idle when work ends.", "seconds"),
    "thermal_seconds": ("Time constant of the temperature.", "seconds"),
    "memory_thermal_seconds": ("Time constant of the memory temperature.", "seconds"),
    "fan_seconds": ("Time constant of the fan.", "seconds"),
    "inlet_celsius": ("The inlet temperature at which the ranges hold.", "degrees Celsius"),
    "slowdown_celsius": ("From here up heat lowers the clock.", "degrees Celsius"),
    "resume_celsius": ("Below this the clock rises again.", "degrees Celsius"),
    "hardware_slowdown_celsius": ("From here up the clock is halved at once.", "degrees Celsius"),
    "shutdown_celsius": ("From here up the board shuts down.", "degrees Celsius"),
    "pcie_bytes_per_second": ("Capacity of the PCIe link, each way.", "bytes per second"),
    "fabric_bytes_per_second": ("Capacity of all links to other boards, each way.", "bytes per second"),
    "memory_bytes_per_second": ("Bandwidth of the memory, reads and writes together.", "bytes per second"),
    "idle_performance_state": ("NVIDIA's performance state without work: 0, the fastest, to 15.", ""),
    "spread": ("The largest difference between boards of the type, as a share.", ""),
}
_TYPES: Final = {"idle_performance_state": Integer(0, 15), "spread": Number(0, 0.5)}
_DEFAULT_WORDS: Final = {
    "inlet_celsius": "extrapolated from the ranges of power and temperature to 0 W",
    "idle_performance_state": "no performance state",
}


def _key(field: str) -> str:
    return field.replace("_", "-")


def _coefficient(name: str, doc: str, unit: str) -> Key:
    """A coefficient of the dynamics: its default is that of the specification."""
    default = next(field.default for field in fields(Dynamics) if field.name == name)
    if default is MISSING:
        return Key(_key(name), Number(), doc, required=True, unit=unit)
    if default == math.inf:
        return Key(_key(name), Number(), doc, default_words="never", unit=unit)
    words = _DEFAULT_WORDS.get(name, "")
    return Key(_key(name), _TYPES.get(name, Number()), doc, default=default, default_words=words, unit=unit)


WORK = Section(
    "device type.dynamics.work",
    tuple(Key(_key(field.name), Number(), _WORK[field.name], default=field.default) for field in fields(WorkKind)),
    doc="The effect of a full load of one kind of work; shares of 1.",
)

DYNAMICS = Section(
    "device type.dynamics",
    (
        *(_coefficient(name, *words) for name, words in _DYNAMICS.items()),
        Key(
            "work",
            MapOf(WORK, words="mapping of kinds of work to shares"),
            "Kinds of work that differ from the built-in ones, or are added.",
            default={},
        ),
        Key(
            "without",
            ListOf(Choice(tuple(SWITCHES)), words="list of relations"),
            "Relations that the board lacks.",
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
    for field in fields(Dynamics):
        if field.name not in _OTHERS:
            _check(field.name, section[_key(field.name)], section, report)
    _check_temperatures(section, ranges, report)
    _check_power(section, ranges, report)
    for name in MEMORY_TRAFFIC:
        if name in ranges:
            report.problem(
                section.place, f"dynamics: {name} follows from memory-bytes-per-second here, and has no range"
            )
    kinds = {name: _kind(work, report) for name, work in (section["work"] or {}).items()}
    if section["power-limit-watts"] is None or len(report.sorted_problems()) > before:
        return None
    numbers: dict[str, Any] = {f.name: section[_key(f.name)] for f in fields(Dynamics) if f.name not in _OTHERS}
    given = {name: number for name, number in numbers.items() if number is not None}
    return Dynamics(**given, kinds={**WORK_KINDS, **kinds}, without=section["without"])


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
    elif number < 0 and name != "inlet_celsius":
        report.problem(values.place_of(_key(name)), f"dynamics: {_key(name)} must not be below 0, as {number:g} is")
