"""Models of devices, as frozen values: the ranges of their quantities, and how their clocks, power and heat act.

How a board is connected: to its host over PCIe, to other boards over links; and how its server is built.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from fakedev.spec.part import PartSpec

#: Transfers of one PCIe lane by generation, in 10^9 a second (PCI-SIG's base specifications).
GIGATRANSFERS_PER_SECOND: Final[Mapping[int, float]] = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}


class Layout(Enum):
    """Where the links of the devices of a node lead."""

    SWITCHES = "switches"  # to switches, dealt round
    MESH = "mesh"  # to every other device, as many to each as can be
    RING = "ring"  # to the next and the last device
    NONE = "none"  # out of the node, to what is not simulated


@dataclass(frozen=True)
class Pcie:
    """A PCIe link as the board and its slot allow it.

    :param width: lanes.
    :param idle_generation: what the link falls back to while the board idles; 0: it does not.
    """

    generation: int
    width: int
    idle_generation: int = 0


@dataclass(frozen=True)
class Links:
    """The links of a board to other boards (NVLink, Xe Link, xGMI).

    :param count: of one board.
    :param switches: of one node, where the links lead to switches.
    :param peers: for each device of a node the devices at the other ends of its links, in order; it stands in the
        place of the layout on nodes of as many devices.
    """

    count: int
    layout: Layout = Layout.NONE
    switches: int = 0
    peers: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Server:
    """The server that a board usually comes in; what it says holds for nodes of at most as many devices.

    :param pci_addresses: of its devices in order of index, as ``0000:1b:00.0``; empty for none that are known.
    :param numa_nodes: that of each device.
    :param cpus: the CPUs of each NUMA node, as ``0-55,112-167``.
    """

    name: str = ""
    pci_addresses: tuple[str, ...] = ()
    numa_nodes: tuple[int, ...] = ()
    cpus: Mapping[int, str] = field(default_factory=dict)

    def facts(self, index: int, devices: int) -> dict[str, str]:
        """What it says of one device of a node with so many: its address, NUMA node and CPUs."""
        facts = {}
        if devices <= len(self.pci_addresses):
            facts["pci_address"] = self.pci_addresses[index]
        if devices <= len(self.numa_nodes):
            numa_node = self.numa_nodes[index]
            facts["numa_node"] = str(numa_node)
            if numa_node in self.cpus:
                facts["cpu_affinity"] = self.cpus[numa_node]
        return facts


@dataclass(frozen=True)
class Connections:
    """All connections of a type of board; None and empty for what is not known, or not there."""

    pcie: Pcie | None = None
    links: Links | None = None
    server: Server = field(default_factory=Server)


@dataclass(frozen=True)
class Range:
    """A quantity's value at load 0 and at load 100 %: ``low <= high``."""

    low: float
    high: float


@dataclass(frozen=True)
class WorkKind:
    """What a full load (100 %) of one kind of work does to a board; shares of 1.

    :param usage: how busy the board says it is.
    :param plain: how much of what the type's ranges say of engines, memory bandwidth and links goes with it.
    :param tensor, copy, encoder, decoder, render: share of these engines, beyond that.
    :param memory: share of the memory bandwidth, beyond that.
    :param read: share of its memory traffic that reads.
    :param transfer, fabric: share of the PCIe link, of the links to other boards, each way, beyond that.
    :param power: dynamic power, by that of plain full load.
    :param power_exponent: power goes with load to this power.
    :param clock_sensitivity: share of a throttled clock's loss by which the work, and its traffic, gets slower.
    """

    usage: float = 1.0
    plain: float = 0.0
    tensor: float = 0.0
    copy: float = 0.0
    encoder: float = 0.0
    decoder: float = 0.0
    render: float = 0.0
    memory: float = 0.0
    read: float = 0.67
    transfer: float = 0.0
    fabric: float = 0.0
    power: float = 1.0
    power_exponent: float = 1.0
    clock_sensitivity: float = 1.0


#: Kinds of work that every board with dynamics knows; doc/simulation.md has the sources.
WORK_KINDS: Mapping[str, WorkKind] = {
    "compute": WorkKind(plain=1.0),
    "tensor": WorkKind(tensor=0.93, memory=0.35, fabric=0.1, power=1.25),
    "memory": WorkKind(tensor=0.02, memory=0.92, read=0.5, power=0.73, power_exponent=0.5, clock_sensitivity=0.1),
    "transfer": WorkKind(usage=0.1, copy=0.8, memory=0.05, read=0.5, transfer=0.8, power=0.12, clock_sensitivity=0.0),
    "exchange": WorkKind(memory=0.3, read=0.5, fabric=0.8, power=0.4, clock_sensitivity=0.1),
    "encode": WorkKind(usage=0.1, encoder=1.0, memory=0.05, power=0.15, clock_sensitivity=0.5),
    "decode": WorkKind(usage=0.05, decoder=1.0, memory=0.05, read=0.33, power=0.1, clock_sensitivity=0.5),
    "render": WorkKind(render=1.0, memory=0.3, power=0.9),
}


#: Relations that a board's type can switch off, and what is then.
SWITCHES: Mapping[str, str] = {
    "hang": "a board that hangs goes on as if it did not; it only says so",
    "core-clock": "the core clock is the highest also without work",
    "memory-clock": "the memory clock is the highest also without work",
    "power-limit": "the power limit is shown, and takes nothing away",
    "thermal-throttle": "heat takes no clock away",
    "hardware-slowdown": "nor does the hardware, over its own limit",
    "shutdown": "no board goes away, however hot",
    "slowing": "throttled clocks slow neither work nor traffic",
}


@dataclass(frozen=True)
class Dynamics:
    """How a board's clocks, power and temperatures act on each other, beyond the ends given by its ranges.

    :param power_limit_watts: the cap: clocks are taken away to stay within it.
    :param power_limit_seconds: time constant with which it takes them; this and all other lags may be 0: at once.
    :param clocked_power_share: share of the dynamic power that raised clocks draw without work.
    :param clock_power_exponent: power of work goes with the clock to this power; 1 or more.
    :param hang_power_share: what a board that hangs draws, as a share of plain full load.
    :param clock_step_mhz: throttled clocks are a whole number of these.
    :param clock_fall_seconds: from the highest clock to idle when work ends.
    :param thermal_seconds, memory_thermal_seconds, fan_seconds: time constants of the temperatures and the fan.
    :param inlet_celsius: the inlet temperature at which the ranges hold; None: where power and temperature make a
        line to no power at all.
    :param slowdown_celsius: from here up heat takes clock away; under ``resume_celsius`` it comes back.
    :param hardware_slowdown_celsius: from here up half of the clock is gone at once.
    :param shutdown_celsius: from here up the board goes away.
    :param pcie_bytes_per_second, fabric_bytes_per_second: what PCIe, and all links to other boards, carry each way.
    :param memory_bytes_per_second: what the memory carries, reads and writes together; 0: not known.
    :param idle_performance_state: the performance state without work; None: the board has none.
    :param spread: how far boards of the type differ at most, as a share: in idle power, in dynamic power and in
        thermal resistance.
    :param kinds: kinds of work by name.
    :param without: relations of :data:`SWITCHES` that the board has not.
    """

    power_limit_watts: float
    power_limit_seconds: float = 0.3
    clocked_power_share: float = 0.06
    clock_power_exponent: float = 2.5
    hang_power_share: float = 0.15
    clock_step_mhz: float = 15.0
    clock_fall_seconds: float = 3.0
    thermal_seconds: float = 25.0
    memory_thermal_seconds: float = 40.0
    fan_seconds: float = 10.0
    inlet_celsius: float | None = None
    slowdown_celsius: float = 89.0
    resume_celsius: float = 86.0
    hardware_slowdown_celsius: float = math.inf
    shutdown_celsius: float = math.inf
    pcie_bytes_per_second: float = 0.0
    fabric_bytes_per_second: float = 0.0
    memory_bytes_per_second: float = 0.0
    idle_performance_state: float | None = None
    spread: float = 0.0
    kinds: Mapping[str, WorkKind] = field(default_factory=lambda: dict(WORK_KINDS))
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeviceType:
    """A model of device: the ranges of its quantities and the facts that its labels show.

    :param ranges: quantity name to its :class:`Range`; a quantity without one is absent.
    :param memory_page_bytes: used memory is a whole number of these.
    :param facts: texts for labels (``product_name``, ``vendor``, ``pci_device_id``, ...).
    :param counts_errors: whether the error counters exist. False for a type that was described
        by the original's JSON only: it has what the file names.
    :param lacks: error counters, or error codes (``xid``), that this model does not have.
    :param limits: quantity to the value over which workloads are ended.
    :param capability: how much work it does at its highest clock, beside other types; 0: not said. Only the ratio
        of two types' numbers counts.
    :param dynamics: how its clocks, power and heat act on each other; None: all follow the load directly.
    :param connections: how it is connected to its host and to other boards.
    :param tiles: what each board is made of; empty where it is of one piece.
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
    connections: Connections = field(default_factory=Connections)
    tiles: tuple[PartSpec, ...] = ()
