"""The specification of a fleet and its faults as frozen values: the configuration builds them, the fleet reads them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple, Self

from fakedev.fleet.spec.device_types import DeviceType, PartSpec
from fakedev.fleet.spec.limits import Limits, Shard
from fakedev.fleet.spec.offers import InCluster
from fakedev.fleet.spec.quantities import Tally
from fakedev.fleet.spec.value_functions import Function, Value, highest, scaled
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


#: Seconds of an activity that lasts until it is stopped. Finite, so that 0 * FOREVER is 0.
FOREVER = 1e300
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
    """

    name: str
    facts: Mapping[str, str] = field(default_factory=dict)
    inlet_celsius: float | None = None
    row: int = 0


@dataclass(frozen=True)
class PoolSpec:
    """Nodes with the same devices; a pool with different devices is several consecutive ones with the same name.

    :param devices: specifications of single devices, by index; other devices have only their type's facts.
    :param inlet_celsius: the temperature of the air that cools the devices; None: that of their type.
    :param shown_as: quantity to the metric of its identity that shows it, for messages to users.
    :param parts: of each device that does not define its own; empty: the tiles of its type.
    :param churn: workloads that start on its nodes at random; None: none do.
    :param in_cluster: how its devices are offered in a Kubernetes cluster.
    :param has_cluster_nodes: whether its nodes are those of a cluster, which come and go.
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


@dataclass(frozen=True)
class Activity:
    """One step of a profile: ``value`` +/- ``fluctuation`` for ``seconds``; for plain load both are percent.

    :param spread: how far its length varies: drawn for each workload and run, mostly within ``seconds`` divided by
        this and ``seconds`` times this; 1: always ``seconds``.
    :param is_once: it belongs to the beginning, which a profile that repeats does not repeat.
    """

    value: Value
    fluctuation: float = 0.0
    seconds: float = FOREVER
    spread: float = 1.0
    is_once: bool = False


class Activities:
    """The activities of a profile, kept as numbers: there may be ten thousand, of many workloads.

    :ivar functions: the values that are functions, by position.
    :ivar spreads: the spreads that are not 1, by position.
    :ivar once_count: the number of activities at the beginning that run once.
    """

    __slots__ = ("__weakref__", "_hash", "_numbers", "functions", "once_count", "spreads")

    def __init__(self, activities: Iterable[Activity]) -> None:
        self._numbers = array("d")
        self.functions: dict[int, Function] = {}
        self.spreads: dict[int, float] = {}
        self.once_count = 0
        for position, each in enumerate(activities):
            value = each.value
            if isinstance(value, Function):
                self.functions[position], value = value, 0.0
            self._numbers.extend((value, each.fluctuation, each.seconds))
            if each.spread != 1.0:
                self.spreads[position] = each.spread
            self.once_count += each.is_once
        self._hash = 0

    @classmethod
    def of(cls, activities: Iterable[Activity]) -> Self:
        """The same activities; they are not copied if they are kept as numbers already."""
        return activities if isinstance(activities, cls) else cls(activities)

    @classmethod
    def of_numbers(cls, numbers: array[float]) -> Self:
        """Activities with constant values.

        :param numbers: value, fluctuation and seconds of each in turn; they are not copied.
        """
        made = cls(())
        made._numbers = numbers
        return made

    def __len__(self) -> int:
        return len(self._numbers) // 3

    def __iter__(self) -> Iterator[Activity]:
        numbers = iter(self._numbers)
        for position, (number, fluctuation, seconds) in enumerate(zip(numbers, numbers, numbers, strict=True)):
            value, spread = self.functions.get(position, number), self.spreads.get(position, 1.0)
            yield Activity(value, fluctuation, seconds, spread, position < self.once_count)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Activities):
            return NotImplemented
        return self is other or self._parts() == other._parts()

    def __hash__(self) -> int:
        if not self._hash:
            rest = (*self.functions.items(), *self.spreads.items(), self.once_count)
            self._hash = hash((tuple(self._numbers), *rest)) or 1
        return self._hash

    def _parts(self) -> tuple[object, ...]:
        return self._numbers, self.functions, self.spreads, self.once_count

    def __repr__(self) -> str:
        return f"Activities({list(self)})"

    @property
    def numbers(self) -> array[float]:
        """Value, fluctuation and seconds of each activity in turn; the value is 0 where it is a function."""
        return self._numbers

    @property
    def segment_count(self) -> int:
        """The number of activities, where each value of ``steps`` is one."""
        steps = [len(each.arguments) - 1 for each in self.functions.values() if each.name == "steps"]
        return len(self) + sum(steps)

    @property
    def seconds(self) -> float:
        """Their duration in all, without what is drawn of it."""
        return sum(self._numbers[2::3])

    @property
    def once_seconds(self) -> float:
        """The duration of those that run once."""
        return sum(self._numbers[2 : 3 * self.once_count : 3])

    @property
    def highest(self) -> float:
        """The highest value, without fluctuation."""
        constant = (each for place, each in enumerate(self._numbers[::3]) if place not in self.functions)
        return max((*constant, *map(highest, self.functions.values())))


@dataclass(frozen=True, slots=True)
class MetricUse:
    """A workload's demand for one metric beside its plain load.

    :param metric: the quantity, one of :data:`fakedev.fleet.spec.quantities.ASKABLE`.
    :param activities: run beside the plain ones, at the same pace, and repeat.
    :param is_share: values are percent of the device's maximum; else they are in the quantity's own unit.
    :param is_traffic: values are bytes per second, for a quantity that is itself a share.
    :param is_optional: ignored if none of the devices has the metric; else the workload is refused.
    """

    metric: str
    activities: Activities
    is_share: bool = False
    is_optional: bool = False
    is_traffic: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "activities", Activities.of(self.activities))


class Intensity(NamedTuple):
    """How much of the engines a workload uses while it runs a kernel, percent; stays within percent +/- fluctuation."""

    percent: float
    fluctuation: float = 0.0


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """A workload of a request or of the configuration.

    :param devices: device words (``card0``, ``dgx-0/3``, ``dgx-[0-3]/*``, ``all``, ``even``, ``odd``).
    :param repeat: how often the activities run; 0: without end.
    :param is_work: the seconds of the activities are work: seconds at the highest clock, so that a throttled
        board takes longer.
    :param kind: of work: ``compute``, ``tensor``, ``memory``, ``transfer``, or one that a device type adds.
    :param uses: its demand for metrics beside the plain load, each metric once.
    :param measured_frequency_mhz, measured_capability: of the device that the profile was measured on: times and
        values are scaled to the simulated device; 0: unknown.
    :param limits: (metric as named in the request, value): a value above it ends the workload.
    :param run_time_limit_seconds: simulated seconds after which it ends with code 1; 0 for none.
    :param ttl_seconds: simulated seconds after which it ends with code 0; 0 for none.
    :param intensities: one for each activity, or one for all; none: 100 % always.
    :param service: that it is a replica of: replicas share the random part of their demand; empty: its name.
    :param faults: on its devices while it runs, each as
        :func:`~fakedev.fleet.spec.fault_kinds.fault_from_fields` takes it, but without devices.
    :param labels: further facts of its devices while it has them, by name, as ``dra_claim_name``; a fact that a device
        has of its own wins.
    :param restart: whether the configuration starts it again after its end: one of RESTARTS.
    """

    name: str
    devices: tuple[str, ...]
    activities: Activities
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
    labels: tuple[tuple[str, str], ...] = ()
    intensities: tuple[Intensity, ...] = ()
    service: str = ""
    restart: str = "never"

    def __post_init__(self) -> None:
        object.__setattr__(self, "activities", Activities.of(self.activities))

    @property
    def has_open_end(self) -> bool:
        """Whether the end of its profile shows only while it runs: its seconds are work, or lengths are drawn."""
        return self.is_work or bool(self.activities.spreads)

    @property
    def intense_activities(self) -> Activities:
        """The activities with loads times intensities as values: how busy engines, memory and power are."""
        each_own = self.intensities if len(self.intensities) > 1 else self.intensities * len(self.activities)
        return Activities(
            replace(
                each,
                value=scaled(each.value, own.percent / 100.0),
                fluctuation=(each.fluctuation * own.percent + highest(each.value) * own.fluctuation) / 100.0,
            )
            for each, own in zip(self.activities, each_own, strict=True)
        )


#: When work of the configuration starts again: as the restart policies of pods in Kubernetes.
RESTARTS: Final = ("always", "on-failure", "never")


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
    :param metric_names: names of metrics of identities that limits may use beside those of quantities.
    :param tallies: counts of device reports that identities show.
    :param faults: the faults of the configuration.
    :param shard: the shard whose nodes are simulated; None: all nodes. All other fields are of the whole fleet.
    :param limits: of the work that requests and configuration start.
    """

    pools: tuple[PoolSpec, ...]
    seed: int = setting(
        "The seed of all randomness: the same seed gives the same history.",
        default=1, high=2**63 - 1, restart="fleet.seed",
    )  # fmt: skip
    tick_seconds: float = setting(
        "Simulated time of one tick.", default=1.0, low=0.001, high=3600, restart="fleet.tick"
    )
    epoch_seconds: float = field(default=0.0, metadata=restarts("fleet.epoch"))
    base: tuple[WorkloadSpec, ...] = ()
    metric_names: Mapping[str, MetricName] = field(default_factory=dict)
    faults: tuple[FaultSpec, ...] = ()
    tallies: tuple[Tally, ...] = ()
    shard: Shard | None = field(default=None, metadata=restarts("fleet.shard"))
    limits: Limits = field(default_factory=Limits)
