"""What a fleet is made of, as frozen values: the configuration builds them, the fleet reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

#: Seconds of an activity that lasts until it is stopped. Finite, so that 0 * FOREVER is 0.
FOREVER = 1e300


@dataclass(frozen=True)
class Range:
    """A quantity's value at load 0 and at load 100 %: ``low <= high``."""

    low: float
    high: float


@dataclass(frozen=True)
class DeviceType:
    """A model of device: the ranges of its quantities and the facts that its labels show.

    :param ranges: quantity name to its :class:`Range`; a quantity without one is absent.
    :param memory_page_bytes: used memory is a whole number of these.
    :param facts: texts for labels (``product_name``, ``vendor``, ``pci_device_id``, ...).
    :param counts_errors: whether the error counters exist. False for a type that was described
        by the original's JSON only: it has what the file names.
    :param lacks: error counters that this model does not have.
    """

    name: str
    ranges: Mapping[str, Range]
    facts: Mapping[str, str] = field(default_factory=dict)
    memory_total_bytes: float = 0.0
    memory_reserved_bytes: float = 0.0
    memory_page_bytes: float = 1.0
    counts_errors: bool = True
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeviceSpec:
    """What the configuration says of one device of every node of a pool, beyond its type."""

    index: int
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeSpec:
    """A host with devices."""

    name: str
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PoolSpec:
    """Nodes with the same devices.

    :param devices: specifications of single devices, by index; the others have their type's facts.
    """

    name: str
    nodes: tuple[NodeSpec, ...]
    device_type: DeviceType
    devices_per_node: int
    devices: Mapping[int, DeviceSpec] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Activity:
    """One stretch of a profile: ``load`` +/- ``fluctuation`` in percent, for ``seconds``."""

    load: float
    fluctuation: float = 0.0
    seconds: float = FOREVER


@dataclass(frozen=True)
class WorkloadSpec:
    """A workload as it was asked for.

    :param devices: device words (``card0``, ``dgx-0/3``, ``dgx-[0-3]/*``, ``all``, ``even``, ``odd``).
    :param repeat: how often the activities run; 0 for ever.
    :param limits: (metric as it was named, value): crossing one ends the workload.
    :param run_time_limit_seconds: simulated seconds after which it is ended with 1; 0 for none.
    :param ttl_seconds: simulated seconds after which it is ended with 0; 0 for none.
    """

    name: str
    devices: tuple[str, ...]
    activities: tuple[Activity, ...]
    repeat: int = 1
    node: str = ""
    pod: str = ""
    namespace: str = ""
    container: str = ""
    limits: tuple[tuple[str, float], ...] = ()
    run_time_limit_seconds: float = 0.0
    ttl_seconds: float = 0.0


@dataclass(frozen=True)
class FleetSpec:
    """All that decides a fleet's history, but the events.

    :param tick_seconds: simulated seconds of one tick.
    :param epoch_seconds: wall time of tick 0, in seconds since 1970.
    :param base: workloads that are present from the first tick.
    """

    pools: tuple[PoolSpec, ...]
    seed: int = 1
    tick_seconds: float = 1.0
    epoch_seconds: float = 0.0
    base: tuple[WorkloadSpec, ...] = ()
