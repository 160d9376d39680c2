"""The keys of ``dynamics``: the coefficients of a board's relations."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields
from typing import Final

from fakedev.config.schema.schema import Key, Section
from fakedev.config.schema.shapes import ListOf, MapOf
from fakedev.config.schema.types import Choice, Integer, Number
from fakedev.spec.device_types import SWITCHES, Dynamics, WorkKind

_WORK: Final = {
    "usage": "How busy the board says it is.",
    "plain": "How much of what the ranges say of engines, memory bandwidth and links goes with it.",
    "tensor": "Share of the tensor pipes beyond that.",
    "copy": "Share of the copy engines beyond that.",
    "encoder": "Share of the media encoders beyond that.",
    "decoder": "Share of the media decoders beyond that.",
    "render": "Share of the 3D engines beyond that.",
    "memory": "Share of the memory bandwidth beyond that.",
    "read": "Share of its memory traffic that reads.",
    "transfer": "Share of the PCIe link, each way, beyond that.",
    "fabric": "Share of the links to other boards, each way, beyond that.",
    "power": "Dynamic power, by that of plain full load.",
    "power_exponent": "Power goes with load to this power.",
    "clock_sensitivity": "Share of a throttled clock's loss by which the work, and its traffic, gets slower.",
}
#: Field to what it means, and its unit.
_DYNAMICS: Final = {
    "power_limit_watts": ("The power cap: clocks are taken away to stay within it.", "watts"),
    "power_limit_seconds": ("Time constant with which the power cap takes clock away; lags may be 0.", "seconds"),
    "clocked_power_share": ("Share of the dynamic power that raised clocks draw without work.", ""),
    "clock_power_exponent": ("The power of work goes with the clock to this power; 1 or more.", ""),
    "hang_power_share": ("What a board that hangs draws, as a share of plain full load.", ""),
    "clock_step_mhz": ("Throttled clocks are a whole number of these.", "MHz"),
    "clock_fall_seconds": ("From the highest clock to idle when work ends.", "seconds"),
    "thermal_seconds": ("Time constant of the temperature.", "seconds"),
    "memory_thermal_seconds": ("Time constant of the memory temperature.", "seconds"),
    "fan_seconds": ("Time constant of the fan.", "seconds"),
    "inlet_celsius": ("The inlet temperature at which the ranges hold.", "degrees Celsius"),
    "slowdown_celsius": ("From here up heat takes clock away.", "degrees Celsius"),
    "resume_celsius": ("Under this it comes back.", "degrees Celsius"),
    "hardware_slowdown_celsius": ("From here up half of the clock is gone at once.", "degrees Celsius"),
    "shutdown_celsius": ("From here up the board goes away.", "degrees Celsius"),
    "pcie_bytes_per_second": ("What the PCIe link can carry, each way.", "bytes per second"),
    "fabric_bytes_per_second": ("What all links to other boards can carry, each way.", "bytes per second"),
    "memory_bytes_per_second": ("What the memory can carry, reads and writes together.", "bytes per second"),
    "idle_performance_state": ("NVIDIA's performance state without work: 0, the fastest, to 15.", ""),
    "spread": ("How far boards of the type differ at most, as a share.", ""),
}
_TYPES: Final = {"idle_performance_state": Integer(0, 15), "spread": Number(0, 0.5)}
_DEFAULT_WORDS: Final = {
    "inlet_celsius": "where the ranges of power and temperature lead to at 0 W",
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
    doc="What a full load of one kind of work does; shares of 1.",
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
            default_words="none",
        ),
        Key(
            "without",
            ListOf(Choice(tuple(SWITCHES)), words="list of relations"),
            "Relations that the board has not.",
            default=(),
            default_words="none",
        ),
    ),
    doc="How clocks, power and heat act on each other. A type without it follows the load directly.",
)
