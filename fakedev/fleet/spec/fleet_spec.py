"""The specification of a fleet and its faults as frozen values: the configuration builds them, the fleet reads them."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fakedev.fleet.spec.cluster_spec import ClusterSpec
from fakedev.fleet.spec.device_types import DeviceType, PartSpec
from fakedev.fleet.spec.limits import Limits, Shard
from fakedev.fleet.spec.offers import InCluster
from fakedev.fleet.spec.quantities import Tally
from fakedev.fleet.spec.rack_spec import RackSpec
from fakedev.fleet.spec.workload_spec import Activities, WorkloadSpec
from fakedev.schema.declare import restarts, setting


@dataclass(frozen=True)
class FaultSpec:
    """A fault of some devices, for some time.

    :param kind: one of :data:`fakedev.fleet.spec.fault_kinds.KINDS`.
    :param devices: device words, as for a workload.
    :param node: the node of device words without one; empty for none.
    :param start_seconds: simulated seconds from the next tick to its start.
    :param duration_seconds: its duration; 0: until it is cleared.
    :param every_seconds: the time between repetitions, each with a new draw; 0: once (or each tick, with a probability
        under 1).
    :param probability: that the fault hits a device, at each draw.
    :param metric: of the fault, as named in the request; empty for all.
    :param values: further parameters of the kind, by name; without defaults.
    :param name: what names it in place of its device words, which may change: the pool and the profile that it is of.
    """

    kind: str
    devices: tuple[str, ...] = ("all",)
    node: str = ""
    start_seconds: float = 0.0
    duration_seconds: float = 0.0
    every_seconds: float = 0.0
    probability: float = 1.0
    metric: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    name: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """What tells it from other faults: on which devices it is, and what happens there, but not how likely or long.

        They are the key of its randomness, so that it strikes the same devices wherever it is in a list.
        """
        where = (self.name,) if self.name else (self.node, *sorted({*self.devices}))
        numbers = {**self.values, "start": self.start_seconds, "every": self.every_seconds}
        return (self.kind, *where, self.metric, *(f"{name}={float(numbers[name])}" for name in sorted(numbers)))


#: The instances of each board of a node (MIG), each with profile, first memory slice, and whether it has its compute
#: instance; None: MIG mode is off.
Layout = tuple[tuple[tuple[str, int, bool], ...] | None, ...]

#: The highest speed of the clock, in simulated seconds per wall second.
MAX_SPEED = 10_000


@dataclass(frozen=True)
class DeviceSpec:
    """The configuration of the device with an index, on every node of a pool.

    :param inlet_celsius: the temperature of the air that cools it; None: that of its node.
    :param parts: of the device, empty for an undivided one; None: those of its pool.
    """

    index: int
    facts: Mapping[str, str] = field(default_factory=dict)
    inlet_celsius: float | None = None
    parts: tuple[PartSpec, ...] | None = None


@dataclass(frozen=True)
class NodeSpec:
    """A host with devices.

    :param inlet_celsius: the temperature of the air that cools them; None: that of its pool.
    :param row: its position among the nodes of its pool, if these have different devices.
    :param place: its position among the nodes of a pool with racks.
    """

    name: str
    facts: Mapping[str, str] = field(default_factory=dict)
    inlet_celsius: float | None = None
    row: int = 0
    place: int = 0


def place_by_name(name: str) -> int | None:
    """The place in racks of a node of a cluster: the number at the end of its name; None: it has none."""
    number = name[len(name.rstrip(string.digits)) :]
    return int(number) if number else None


def node_of_cluster(name: str, racks: RackSpec | None, row: int = 0) -> NodeSpec:
    """A node of a cluster in a pool.

    :param racks: of the pool.
    """
    return NodeSpec(name, row=row, place=0 if racks is None else place_by_name(name) or 0)


@dataclass(frozen=True)
class PoolSpec:
    """Nodes with the same devices; a pool with different devices is several consecutive ones with the same name.

    :param devices: specifications of single devices, by index; other devices have only their type's facts.
    :param inlet_celsius: the temperature of the air that cools the devices; None: that of their type.
    :param inlet_drift_celsius: how far the air is from its mean over the day; None: as in the rooms of their type,
        and not at all where a temperature is given.
    :param shown_as: quantity to the metric of its identity that shows it, for messages to users.
    :param parts: of each device that does not define its own; empty: the tiles of its type.
    :param churn: workloads that start on its nodes at random; None: none do.
    :param in_cluster: how its devices are offered in a Kubernetes cluster.
    :param has_cluster_nodes: whether its nodes are those of a cluster, which come and go.
    :param racks: where its nodes are; None: in no racks.
    :param layout: how the boards of these nodes of a cluster were divided since; empty: as the configuration says.
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
    in_cluster: InCluster = field(default_factory=InCluster)
    has_cluster_nodes: bool = False
    racks: RackSpec | None = None
    layout: Layout = ()
    inlet_drift_celsius: float | None = None

    def parts_of(self, index: int) -> tuple[PartSpec, ...]:
        """The parts of the device with an index; empty for an undivided one."""
        device = self.devices.get(index)
        return (self.parts if device is None or device.parts is None else device.parts) or self.device_type.tiles

    @cached_property
    def given_addresses(self) -> frozenset[str]:
        """The PCI addresses that the configuration gives to single devices."""
        return frozenset(
            device.facts.get("pci_address", device.facts.get("addr", "")) for device in self.devices.values()
        )

    @property
    def has_parts(self) -> bool:
        """Whether any of its devices has parts."""
        return bool(self.parts or self.device_type.tiles) or any(device.parts for device in self.devices.values())


@dataclass(frozen=True, slots=True)
class Cost:
    """What a workload or a fault takes of the limits.

    :param memory_bytes: without its profiles.
    :param profiles: of the workload's load and of its metrics; those that several have are kept once.
    """

    memory_bytes: int = 0
    workload_devices: int = 0
    fault_devices: int = 0
    profiles: tuple[Activities, ...] = ()


@dataclass(frozen=True)
class ChurnKind:
    """One kind of workloads that churn starts on nodes.

    :param workload: the common fields, without devices, pod and duration.
    :param weight: its frequency relative to the other kinds.
    :param counts: the possible numbers of devices.
    :param min_seconds, max_seconds: its duration; the median is the geometric mean of the two.
    :param is_job: pods have names as of jobs, a new job each; else names as of one deployment.
    """

    workload: WorkloadSpec
    min_seconds: float
    max_seconds: float
    weight: float = 1.0
    counts: tuple[int, ...] = (1,)
    is_job: bool = False


@dataclass(frozen=True)
class ChurnSpec:
    """Workloads that start on each node of a pool at random, without a request, and end after some time.

    :param per_second: the mean number of arrivals on a node in a simulated second.
    """

    per_second: float
    kinds: tuple[ChurnKind, ...]


@dataclass(frozen=True)
class MetricName:
    """The meaning of a metric that users see: a quantity times a factor."""

    quantity: str
    factor: float = 1.0


@dataclass(frozen=True)
class FleetSpec:
    """All that decides a fleet's history, without the events.

    :param epoch_seconds: wall time of tick 0, in seconds since 1970.
    :param base: the workloads of the configuration, which run from the first tick on.
    :param metric_names: names of metrics of identities that limits may use in addition to names of quantities.
    :param tallies: counts of device reports that identities show.
    :param faults: the faults of the configuration.
    :param shard: the shard whose nodes are simulated; None: all nodes. All other fields are of the whole fleet.
    :param limits: of the work that requests and configuration start.
    :param cluster: jobs and services that come and go on all nodes; None: there is none.
    """

    pools: tuple[PoolSpec, ...]
    seed: int = setting(
        "The seed of all randomness: the same seed gives the same history.",
        default=1, high=2**63 - 1, restart="fleet.seed",
    )  # fmt: skip
    tick_seconds: float = setting(
        "Simulated time of one tick.", default=1.0, low=0.001, high=3600, restart="fleet.tick"
    )
    exact_sensors: bool = setting(
        "Show the true values, without the errors of sensors.", default=False, restart="fleet.exact-sensors"
    )
    epoch_seconds: float = field(default=0.0, metadata=restarts("fleet.epoch"))
    base: tuple[WorkloadSpec, ...] = ()
    metric_names: Mapping[str, MetricName] = field(default_factory=dict)
    faults: tuple[FaultSpec, ...] = ()
    tallies: tuple[Tally, ...] = ()
    shard: Shard | None = field(default=None, metadata=restarts("fleet.shard"))
    limits: Limits = field(default_factory=Limits)
    cluster: ClusterSpec | None = None
