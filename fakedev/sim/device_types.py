"""Models of devices, as frozen values: the ranges of their quantities, and how their clocks, power and heat act."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Range:
    """A quantity's value at load 0 and at load 100 %: ``low <= high``."""

    low: float
    high: float


@dataclass(frozen=True)
class WorkKind:
    """What a full load (100 %) of one kind of work does to a board; shares of 1.

    :param usage: how busy the board says it is.
    :param plain: how much of what the type's ranges say of tensor pipes, memory bandwidth and PCIe goes with it.
    :param tensor, memory: share of the tensor pipes, of the memory bandwidth, beyond that.
    :param transfer: share of the PCIe link, each way, beyond that.
    :param power: dynamic power, by that of plain full load.
    :param power_exponent: power goes with load to this power.
    :param clock_sensitivity: share of a throttled clock's loss by which the work gets slower.
    """

    usage: float = 1.0
    plain: float = 0.0
    tensor: float = 0.0
    memory: float = 0.0
    transfer: float = 0.0
    power: float = 1.0
    power_exponent: float = 1.0
    clock_sensitivity: float = 1.0


#: Kinds of work that every board with dynamics knows; doc/simulation.md has the sources.
WORK_KINDS: Mapping[str, WorkKind] = {
    "compute": WorkKind(plain=1.0),
    "tensor": WorkKind(tensor=0.93, memory=0.35, power=1.25),
    "memory": WorkKind(tensor=0.02, memory=0.92, power=0.73, power_exponent=0.5, clock_sensitivity=0.1),
    "transfer": WorkKind(usage=0.1, memory=0.05, transfer=0.8, power=0.12, clock_sensitivity=0.0),
}


@dataclass(frozen=True)
class Dynamics:
    """How a board's clocks, power and temperatures act on each other, beyond the ends given by its ranges.

    :param power_limit_watts: the cap: clocks are taken away to stay within it.
    :param clocked_power_share: share of the dynamic power that raised clocks draw without work.
    :param clock_power_exponent: power of work goes with the clock to this power.
    :param clock_step_mhz: throttled clocks are a whole number of these.
    :param clock_fall_seconds: from the highest clock to idle when work ends.
    :param thermal_seconds, memory_thermal_seconds: time constants of the temperatures.
    :param slowdown_celsius: from here up heat takes clock away; under ``resume_celsius`` it comes back.
    :param pcie_bytes_per_second: what the PCIe link can carry, each way.
    """

    power_limit_watts: float
    clocked_power_share: float = 0.06
    clock_power_exponent: float = 2.5
    clock_step_mhz: float = 15.0
    clock_fall_seconds: float = 3.0
    thermal_seconds: float = 25.0
    memory_thermal_seconds: float = 40.0
    slowdown_celsius: float = 89.0
    resume_celsius: float = 86.0
    pcie_bytes_per_second: float = 0.0
    kinds: Mapping[str, WorkKind] = field(default_factory=lambda: dict(WORK_KINDS))


@dataclass(frozen=True)
class DeviceType:
    """A model of device: the ranges of its quantities and the facts that its labels show.

    :param ranges: quantity name to its :class:`Range`; a quantity without one is absent.
    :param memory_page_bytes: used memory is a whole number of these.
    :param facts: texts for labels (``product_name``, ``vendor``, ``pci_device_id``, ...).
    :param counts_errors: whether the error counters exist. False for a type that was described
        by the original's JSON only: it has what the file names.
    :param lacks: error counters that this model does not have.
    :param limits: quantity to the value over which workloads are ended.
    :param capability: how much work it does at its highest clock, beside other types; 0: not said. Only the ratio
        of two types' numbers counts.
    :param dynamics: how its clocks, power and heat act on each other; None: all follow the load directly.
    """

    name: str
    ranges: Mapping[str, Range]
    facts: Mapping[str, str] = field(default_factory=dict)
    memory_total_bytes: float = 0.0
    memory_reserved_bytes: float = 0.0
    memory_page_bytes: float = 1.0
    counts_errors: bool = True
    lacks: tuple[str, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    capability: float = 0.0
    dynamics: Dynamics | None = None
