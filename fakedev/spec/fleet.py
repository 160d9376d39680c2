"""What a fleet is made of, as frozen values: the configuration builds them, the fleet reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fakedev.spec.device_types import DeviceType
from fakedev.spec.fault import FaultSpec
from fakedev.spec.part import PartSpec
from fakedev.spec.shards import Shard
from fakedev.spec.tallies import Tally
from fakedev.spec.value_functions import Value

#: Seconds of an activity that lasts until it is stopped. Finite, so that 0 * FOREVER is 0.
FOREVER = 1e300


@dataclass(frozen=True)
class DeviceSpec:
    """What the configuration says of one device of every node of a pool, beyond its type.

    :param inlet_celsius: the temperature of the air that cools it; None: that of its node.
    :param parts: what it is divided into, none for nothing; None: what its pool says.
    """

    index: int
    facts: Mapping[str, str] = field(default_factory=dict)
    inlet_celsius: float | None = None
    parts: tuple[PartSpec, ...] | None = None


@dataclass(frozen=True)
class NodeSpec:
    """A host with devices.

    :param inlet_celsius: the temperature of the air that cools them; None: that of its pool.
    :param row: its place among the nodes of its pool, where these have different devices.
    """

    name: str
    facts: Mapping[str, str] = field(default_factory=dict)
    inlet_celsius: float | None = None
    row: int = 0


@dataclass(frozen=True)
class PoolSpec:
    """Nodes with the same devices; where those of a pool differ, it is several of these with one name, in a row.

    :param devices: specifications of single devices, by index; the others have their type's facts.
    :param inlet_celsius: the temperature of the air that cools the devices; None: that of their type.
    :param shown_as: what its users call quantities: the metric of its identity that shows each.
    :param parts: what each device is divided into that says nothing else of it; none: the tiles of its type.
    :param churn: workloads that come to its nodes by themselves; None: none do.
    """

    name: str
    nodes: tuple[NodeSpec, ...]
    device_type: DeviceType
    devices_per_node: int
    devices: Mapping[int, DeviceSpec] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    shown_as: Mapping[str, str] = field(default_factory=dict)
    inlet_celsius: float | None = None
    parts: tuple[PartSpec, ...] = ()
    churn: ChurnSpec | None = None

    def parts_of(self, index: int) -> tuple[PartSpec, ...]:
        """What the device of an index is divided into; empty for nothing."""
        device = self.devices.get(index)
        return (self.parts if device is None or device.parts is None else device.parts) or self.device_type.tiles

    @cached_property
    def given_addresses(self) -> frozenset[str]:
        """The PCI addresses that are said of single devices."""
        return frozenset(
            device.facts.get("pci_address", device.facts.get("addr", "")) for device in self.devices.values()
        )

    @property
    def has_parts(self) -> bool:
        """Whether any of its devices has parts."""
        return bool(self.parts or self.device_type.tiles) or any(device.parts for device in self.devices.values())


@dataclass(frozen=True)
class Activity:
    """One stretch of a profile: ``value`` +/- ``fluctuation`` for ``seconds``; of plain load both are percent."""

    value: Value
    fluctuation: float = 0.0
    seconds: float = FOREVER


@dataclass(frozen=True)
class MetricUse:
    """What a workload asks of one metric beside its plain load.

    :param metric: the quantity, one of :data:`fakedev.spec.metrics_of_work.ASKABLE`.
    :param activities: run beside the plain ones, at the same pace, and begin again when they are over.
    :param is_share: values are percent of what the device has; else they are in the quantity's own unit.
    :param is_traffic: values are bytes a second, of a quantity whose own unit is a share.
    :param is_optional: it is left out where none of the devices has the metric; else there is no such workload.
    """

    metric: str
    activities: tuple[Activity, ...]
    is_share: bool = False
    is_optional: bool = False
    is_traffic: bool = False


@dataclass(frozen=True)
class WorkloadSpec:
    """A workload as it was asked for.

    :param devices: device words (``card0``, ``dgx-0/3``, ``dgx-[0-3]/*``, ``all``, ``even``, ``odd``).
    :param repeat: how often the activities run; 0 for ever.
    :param is_work: the seconds of the activities are work: seconds at the highest clock, so that a throttled
        board takes longer.
    :param kind: of work: ``compute``, ``tensor``, ``memory``, ``transfer``, or one that a device type adds.
    :param uses: what it asks of metrics beside the plain load, each metric once.
    :param measured_frequency_mhz, measured_capability: of the device that the profile was measured on: times and
        values are scaled by those of the simulated one; 0: not said.
    :param limits: (metric as it was named, value): crossing one ends the workload.
    :param run_time_limit_seconds: simulated seconds after which it is ended with 1; 0 for none.
    :param ttl_seconds: simulated seconds after which it is ended with 0; 0 for none.
    :param faults: what goes wrong on its devices while it runs, each as
        :func:`~fakedev.spec.fault_fields.fault_from_fields` takes it, but without devices.
    """

    name: str
    devices: tuple[str, ...]
    activities: tuple[Activity, ...]
    repeat: int = 1
    kind: str = "compute"
    is_work: bool = False
    node: str = ""
    pod: str = ""
    namespace: str = ""
    container: str = ""
    limits: tuple[tuple[str, float], ...] = ()
    run_time_limit_seconds: float = 0.0
    ttl_seconds: float = 0.0
    uses: tuple[MetricUse, ...] = ()
    measured_frequency_mhz: float = 0.0
    measured_capability: float = 0.0
    faults: tuple[Mapping[str, object], ...] = field(default=(), hash=False)


@dataclass(frozen=True)
class ChurnKind:
    """One kind of the workloads that come to nodes by themselves, and go again.

    :param workload: what they all are, but for devices, pod and how long they last.
    :param weight: how often it comes, beside the other kinds.
    :param counts: how many devices it wants: one of these.
    :param min_seconds, max_seconds: how long it lasts; as often under as over the geometric mean of the two.
    :param is_job: pods are named as those of a job, each of its own; else as those of one deployment.
    """

    workload: WorkloadSpec
    min_seconds: float
    max_seconds: float
    weight: float = 1.0
    counts: tuple[int, ...] = (1,)
    is_job: bool = False


@dataclass(frozen=True)
class ChurnSpec:
    """Workloads that come to each node of a pool by themselves, and go again.

    :param per_second: how many come to a node in a simulated second, on the average.
    """

    per_second: float
    kinds: tuple[ChurnKind, ...]


@dataclass(frozen=True)
class MetricName:
    """What a metric that users see shows: a quantity, times a factor."""

    quantity: str
    factor: float = 1.0


@dataclass(frozen=True)
class FleetSpec:
    """All that decides a fleet's history, but the events.

    :param tick_seconds: simulated seconds of one tick.
    :param epoch_seconds: wall time of tick 0, in seconds since 1970.
    :param base: workloads that are present from the first tick.
    :param metric_names: names of metrics that limits may use beside those of quantities: as identities show them.
    :param tallies: what is counted of what devices report, because somebody shows it.
    :param faults: what goes wrong from the first tick on, or later.
    :param shard: only the nodes of this shard are simulated; None: all. All else is of the whole fleet.
    """

    pools: tuple[PoolSpec, ...]
    seed: int = 1
    tick_seconds: float = 1.0
    epoch_seconds: float = 0.0
    base: tuple[WorkloadSpec, ...] = ()
    metric_names: Mapping[str, MetricName] = field(default_factory=dict)
    faults: tuple[FaultSpec, ...] = ()
    tallies: tuple[Tally, ...] = ()
    shard: Shard | None = None
