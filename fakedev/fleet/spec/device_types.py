"""Device types as frozen values: quantities, clocks, power, heat, connections, parts, and kinds of MIG instances.

The kinds of MIG instances of NVIDIA's boards have the multiprocessors and engines that NVML reports. Only listed
figures are here: a board or profile without a line has none. Sources, as ``nvidia-smi mig -lgip`` lists them:

- A100: NVIDIA's MIG User Guide, "Supported MIG Profiles" (engines), and a listing of an A100-SXM4-40GB. The guide
  gives the 80 GB board the same figures under the names of its own profiles.
- H100: a listing of an H100 80GB HBM3. The labels in the GPU operator's documentation for ``1g.10gb`` agree (16
  multiprocessors, 1 copy engine, 1 decoder, 1 JPEG engine).
- H200: a listing without the profiles ``1g.35gb``, ``3g.71gb`` and ``4g.71gb``, which are left out here.

The go-nvml mock (NVIDIA/go-nvml, pkg/nvml/mock/shared/gpus) has other figures for Hopper, equal steps of 16
multiprocessors; real boards list the figures below.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from fakedev.fleet.spec.work_kinds import WORK_KINDS, WorkKind
from fakedev.schema.declare import described, setting

_MIB: Final = 2**20
#: Links of one board, and switches of one node.
MAX_LINKS: Final = 64


@dataclass(frozen=True)
class MigProfile:
    """A kind of instance."""

    name: str = field(metadata=described("Its name, as 1g.10gb."))
    slices: int = field(metadata=described("Compute slices of an instance.", low=1, high=64))
    memory_slices: int = field(
        metadata=described("Memory slices of an instance, a power of 2.", low=1, high=64)
    )
    memory_bytes: float = field(metadata=described("Memory of an instance."))
    begins: tuple[int, ...]
    most: int = setting("Instances of it on a board, at most.", default=64, low=1, high=64, default_words="as fit")

    def count_beside(self, slices: int, taken: Iterable[range], same: int = 0) -> int:
        """How many more instances of it a board can have.

        :param slices: compute slices that are left.
        :param taken: the memory slices of each instance that is there.
        :param same: how many of these are of this kind.
        """
        used = {place for some in taken for place in some}
        count = 0
        for begin in sorted(self.begins):
            place = {*range(begin, begin + self.memory_slices)}
            if not place & used:
                used |= place
                count += 1
        return max(0, min(count, self.most - same, slices // self.slices))


class MigAttributes(NamedTuple):
    """The engines of an instance, which no other instance uses."""

    multiprocessors: int
    copy: int
    decoder: int
    encoder: int
    jpeg: int
    ofa: int


_AMPERE: Final = {
    "1g": MigAttributes(14, 1, 0, 0, 0, 0),
    "1g+me": MigAttributes(14, 1, 1, 0, 1, 1),
    "1g, twice the memory": MigAttributes(14, 1, 1, 0, 0, 0),
    "2g": MigAttributes(28, 2, 1, 0, 0, 0),
    "3g": MigAttributes(42, 3, 2, 0, 0, 0),
    "4g": MigAttributes(56, 4, 2, 0, 0, 0),
    "7g": MigAttributes(98, 7, 5, 0, 1, 1),
}
_HOPPER: Final = {
    "1g": MigAttributes(16, 1, 1, 0, 1, 0),
    "1g+me": MigAttributes(16, 1, 1, 0, 1, 1),
    "1g, twice the memory": MigAttributes(26, 1, 1, 0, 1, 0),
    "2g": MigAttributes(32, 2, 2, 0, 2, 0),
    "3g": MigAttributes(60, 3, 3, 0, 3, 0),
    "4g": MigAttributes(64, 4, 4, 0, 4, 0),
    "7g": MigAttributes(132, 8, 7, 0, 7, 1),
}
_OF_80_GB: Final = {
    "1g.10gb": "1g", "1g.10gb+me": "1g+me", "1g.20gb": "1g, twice the memory", "2g.20gb": "2g", "3g.40gb": "3g",
    "4g.40gb": "4g", "7g.80gb": "7g",
}  # fmt: skip
_OF_40_GB: Final = {
    "1g.5gb": "1g", "1g.5gb+me": "1g+me", "1g.10gb": "1g, twice the memory", "2g.10gb": "2g", "3g.20gb": "3g",
    "4g.20gb": "4g", "7g.40gb": "7g",
}  # fmt: skip
_OF_141_GB: Final = {"1g.18gb": "1g", "1g.18gb+me": "1g+me", "2g.35gb": "2g", "7g.141gb": "7g"}
#: By PCI device: A100-SXM4-40GB, A100-SXM4-80GB, H100 SXM5, H200 SXM.
_BOARDS: Final[Mapping[str, tuple[Mapping[str, MigAttributes], Mapping[str, str]]]] = {
    "0x20b0": (_AMPERE, _OF_40_GB),
    "0x20b2": (_AMPERE, _OF_80_GB),
    "0x2330": (_HOPPER, _OF_80_GB),
    "0x2335": (_HOPPER, _OF_141_GB),
}


def attributes_of(board: Mapping[str, str], profile: str) -> MigAttributes | None:
    """The attributes of a profile on a board; None where they are not known.

    :param board: its facts.
    """
    figures, names = _BOARDS.get(board.get("pci_device_id", "").lower(), ({}, {}))
    return figures.get(names.get(profile, ""))


_CELSIUS: Final = "degrees Celsius"
_BANDWIDTH: Final = "bytes per second"

#: The memory temperature that throttles boards whose type does not give it: amd-smi's limit of an MI300A.
MEMORY_SLOWDOWN_CELSIUS: Final = 105.0
#: Transfers of one PCIe lane by generation, in 10^9 a second (PCI-SIG's base specifications).
GIGATRANSFERS_PER_SECOND: Final[Mapping[int, float]] = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
#: The share of these that is data: 8 of 10 bits of the generations 1 and 2, 128 of 130 bits of later ones.
PCIE_PAYLOAD: Final[Mapping[int, float]] = {1: 0.8, 2: 0.8, **dict.fromkeys((3, 4, 5, 6), 128 / 130)}


class Layout(Enum):
    """The far ends of the links of a node's devices."""

    SWITCHES = "switches"  # switches, in turn
    MESH = "mesh"  # every other device, with as many links to each as possible
    RING = "ring"  # the next and the previous device
    NONE = "none"  # outside of the node, not simulated


@dataclass(frozen=True)
class PartSpec:
    """A part of a device.

    :param key: its name among the parts of its device, for randomness, UUIDs and reloads.
    :param compute_share: of the device's engines and their traffic, over 0 and at most 1.
    :param memory_bytes: its memory; 0: unknown.
    :param has_links: whether its work can use the links to other boards.
    :param facts: texts for labels, in addition to the facts of its device.
    :param is_tile: whether it is a tile of a board, with its own clock, heat and errors, instead of an instance of a
        GPU. Work on a board is on its tiles, and the owner of a tile owns the board.
    """

    key: str
    compute_share: float
    memory_bytes: float = 0.0
    has_links: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)
    is_tile: bool = False


@dataclass(frozen=True)
class Pcie:
    """The PCIe link of a board and its slot at full speed."""

    generation: int = field(metadata=described("The highest generation.", low=1, high=6))
    width: int = field(metadata=described("Lanes.", low=1, high=32))
    idle_generation: int = setting(
        "What it falls back to while the board idles.", default=0, low=1, high=6, default_words="it does not"
    )


@dataclass(frozen=True)
class Links:
    """The links of a board to other boards (NVLink, Xe Link, xGMI).

    :param peers: for each device of a node the devices at the other ends of its links, in order; it replaces the layout
        on nodes with as many devices.
    """

    count: int = field(metadata=described("Links of a board.", low=1, high=MAX_LINKS))
    layout: Layout = setting(
        "Where they go: to switches, to all other devices of the node, to the next and the last, or out of it.",
        default=Layout.NONE,
    )  # fmt: skip
    switches: int = setting("Switches of a node.", default=0, high=MAX_LINKS)
    peers: tuple[tuple[int, ...], ...] = ()


#: The highest number of a PCIe switch of a server.
MAX_SWITCH: Final = 1023


@dataclass(frozen=True)
class Server:
    """The server that usually has a board; its facts are for nodes with at most as many devices.

    :param pci_addresses: of its devices in order of index, as ``0000:1b:00.0``; empty if unknown.
    :param cpus: the CPUs of each NUMA node, as ``0-55,112-167``.
    """

    name: str = setting("Its name: for readers only.", default="")
    pci_addresses: tuple[str, ...] = ()
    numa_nodes: tuple[int, ...] = setting("The NUMA node of each.", default=(), high=1023, default_words="not known")
    pcie_switches: tuple[int, ...] = setting(
        "The PCIe switch of each: boards of one share its link to the host.", default=(), high=MAX_SWITCH,
        default_words="each has its own link",
    )  # fmt: skip
    cpus: Mapping[int, str] = field(default_factory=dict)

    def facts(self, index: int, devices: int) -> dict[str, str]:
        """The address, NUMA node and CPUs of one device of a node with ``devices`` devices."""
        facts = {}
        if devices <= len(self.pci_addresses):
            facts["pci_address"] = self.pci_addresses[index]
        if devices <= len(self.numa_nodes):
            numa_node = self.numa_nodes[index]
            facts["numa_node"] = str(numa_node)
            if numa_node in self.cpus:
                facts["cpu_affinity"] = self.cpus[numa_node]
        if devices <= len(self.pcie_switches):
            facts["pcie_switch"] = str(self.pcie_switches[index])
        return facts


@dataclass(frozen=True)
class Connections:
    """All connections of a type of board; None or empty if unknown or absent."""

    pcie: Pcie | None = None
    links: Links | None = None
    server: Server = field(default_factory=Server)


@dataclass(frozen=True)
class Range:
    """A quantity's value at load 0 and at load 100 %: ``low <= high``."""

    low: float
    high: float


#: Relations that a board's type can switch off, and what is then.
SWITCHES: Mapping[str, str] = {
    "hang": "a board that hangs continues as if it did not; only the flag shows the hang",
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
    """How a board's clocks, power and temperatures affect each other, within the ranges of its type.

    :param power_limit_seconds: as all time constants it may be 0: at once.
    :param matrix_clock_mhz: as memory_bound_watts None: the kind of work gives the power.
    :param memory_bytes_per_second: 0: unknown.
    :param spread: in idle power, in dynamic power and in thermal resistance.
    :param kinds: kinds of work by name.
    :param without: relations of :data:`SWITCHES` that the board does not have.
    """

    power_limit_watts: float = field(
        metadata=described("The power cap: the board lowers its clocks to stay within it.", "watts")
    )
    power_limit_seconds: float = setting(
        "Time constant with which the power cap lowers clocks; lags may be 0.", "seconds", 0.3
    )
    clocked_power_share: float = setting(
        "Share of the dynamic power that raised clocks use without work, as while a process holds a context.",
        default=0.06,
    )
    clock_power_exponent: float = setting(
        "The power of work is proportional to the clock to this power; 1 or more.", default=2.5
    )
    hang_power_share: float = setting(
        "Power of a board that hangs, as a share of plain full load.", default=0.06
    )
    matrix_clock_mhz: float | None = setting(
        "The measured clock at which dense matrix work meets the power limit; it gives the power of tensor work.",
        "MHz", None,
    )
    memory_bound_watts: float | None = setting(
        "The measured power of the board while memory-bound work keeps its memory busy.", "watts", None
    )
    power_noise: float = setting("The largest fluctuation of the power from tick to tick, as a share.", default=0.0)
    power_step_watts: float = setting("The resolution of the power sensor; 0: any number.", "watts", 0.0)
    power_average_seconds: float = setting(
        "For how long the power sensor averages; 0: it shows the power of a moment.", "seconds", 1.0
    )
    clock_step_mhz: float = setting("Throttled clocks are a whole number of these.", "MHz", 15.0)
    clock_fall_seconds: float = setting("From the highest clock to idle when work ends.", "seconds", 3.0)
    thermal_seconds: float = setting("Time constant of the temperature.", "seconds", 25.0)
    memory_thermal_seconds: float = setting("Time constant of the memory temperature.", "seconds", 40.0)
    fan_seconds: float = setting("Time constant of the fan.", "seconds", 10.0)
    inlet_celsius: float | None = setting(
        "The inlet temperature at which the ranges hold.", _CELSIUS,
        default_words="extrapolated from the ranges of power and temperature to 0 W",
    )  # fmt: skip
    inlet_spread_celsius: float = setting(
        "The largest difference that the slot makes to the inlet temperature, and again the place in the room.",
        _CELSIUS, 0.0,
    )
    inlet_drift_celsius: float = setting("How far the room is from its mean temperature over the day.", _CELSIUS, 0.0)
    slowdown_celsius: float = setting(
        "The clock is lowered so that the core gets hardly warmer than this.", _CELSIUS, 89.0
    )
    resume_celsius: float = setting("Below this a hardware slowdown ends.", _CELSIUS, 86.0)
    hardware_slowdown_celsius: float = setting(
        "From here up the clock is halved at once.", _CELSIUS, math.inf, absent="never"
    )
    shutdown_celsius: float = setting("From here up the board shuts down.", _CELSIUS, 110.0)
    pcie_bytes_per_second: float = setting("Capacity of the PCIe link, each way.", _BANDWIDTH, 0.0)
    fabric_bytes_per_second: float = setting("Capacity of all links to other boards, each way.", _BANDWIDTH, 0.0)
    memory_bytes_per_second: float = setting(
        "Bandwidth of the memory, reads and writes together.", _BANDWIDTH, 0.0
    )
    idle_performance_state: int | None = setting(
        "NVIDIA's performance state without work: 0, the fastest, to 15.", high=15, default_words="no performance state"
    )
    compute_performance_state: int | None = setting(
        "NVIDIA's performance state with work that is no graphics: 2 on GeForce boards.", high=15, default_words="0"
    )
    compute_memory_mhz: float | None = setting(
        "The memory clock with work that is no graphics; its highest if it is not given.", "MHz",
        default_words="the highest",
    )  # fmt: skip
    spread: float = setting("The largest difference between boards of the type, as a share.", default=0.0, high=0.5)
    kinds: Mapping[str, WorkKind] = field(default_factory=lambda: dict(WORK_KINDS))
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeviceType:
    """A model of device: the ranges of its quantities, and the facts for its labels.

    :param ranges: quantity name to its :class:`Range`; a quantity without a range is absent.
    :param facts: texts for labels (``product_name``, ``vendor``, ``pci_device_id``, ...).
    :param counts_errors: False for a type from the original's JSON, which has only
        the quantities of the file.
    :param lacks: counters, or error codes (``xid``), that this model does not have.
    :param limits: quantity to the value above which workloads end.
    :param capability: 0: unknown. Only ratios of two types' capabilities matter.
    :param dynamics: of its clocks, power and heat; None: all quantities follow the load directly.
    :param connections: to its host and to other boards.
    :param tiles: of each board; empty if boards have none.
    :param mig_slices: the most instances (MIG) that a board can be divided into; 0: it cannot be divided.
    :param mig_profiles: the kinds of these instances.
    """

    name: str
    ranges: Mapping[str, Range]
    facts: Mapping[str, str] = field(default_factory=dict)
    memory_total_bytes: float = setting("Memory of the board.", default=0.0, name="total")
    memory_reserved_bytes: float = setting("Memory that driver and firmware use.", default=0.0, name="reserved")
    memory_page_bytes: float = setting("The granularity of used memory.", default=1.0, name="page")
    counts_errors: bool = setting("Whether it has error counters.", default=True)
    lacks: tuple[str, ...] = ()
    limits: Mapping[str, float] = field(default_factory=dict)
    capability: float = setting(
        "How much work it does at its highest clock, relative to other types: TFLOPS, for instance.",
        default=0.0, default_words="not given",
    )  # fmt: skip
    dynamics: Dynamics | None = None
    connections: Connections = field(default_factory=Connections)
    tiles: tuple[PartSpec, ...] = ()
    mig_slices: int = 0
    mig_profiles: tuple[MigProfile, ...] = ()

    @property
    def memory_slowdown_celsius(self) -> float:
        """The memory temperature from which up the clock is lowered: a fact, as NVIDIA's drivers print it."""
        limit = _number(self.facts.get("memory_max_operating_celsius", ""))
        return MEMORY_SLOWDOWN_CELSIUS if limit is None else limit

    def power_limit_ends(self) -> tuple[float, float]:
        """The lowest and the highest power limit that the driver accepts, in watts.

        Facts give them, as NVIDIA's drivers print them. Without them the lowest is what plain full load draws at the
        idle clock, which no lower limit changes, and the highest is the limit that the board comes with; boards without
        dynamics accept none.
        """
        if self.dynamics is None:
            return 0.0, 0.0
        low, high = (_number(self.facts.get(f"power_limit_{end}_watts", "")) for end in ("min", "max"))
        lowest = self._least_watts(self.dynamics) if low is None else low
        return lowest, self.dynamics.power_limit_watts if high is None else high

    def _least_watts(self, dynamics: Dynamics) -> float:
        """What plain full load draws at the idle clock, in whole watts."""
        power, clock = self.ranges.get("power_watts"), self.ranges.get("core_frequency_mhz")
        if power is None or clock is None or clock.high <= 0:
            return 0.0
        work = (power.high - power.low) * (1.0 - dynamics.clocked_power_share)
        return float(math.ceil(power.low + work * (clock.low / clock.high) ** dynamics.clock_power_exponent))


def _number(text: str) -> float | None:
    """The number that a text is; None for any other text."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
