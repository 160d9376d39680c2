"""The work on devices as frozen values: activities, what a workload asks of metrics, and the workload itself.

Apart from the fleet, because ``fakedev-workload`` must start fast.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Self

from fakedev.fleet.spec.value_functions import Function, Value, highest, scaled

#: Seconds of an activity that lasts until it is stopped. Finite, so that 0 * FOREVER is 0.
FOREVER = 1e300


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
        for position, activity in enumerate(activities):
            value = activity.value
            if isinstance(value, Function):
                self.functions[position], value = value, 0.0
            self._numbers.extend((value, activity.fluctuation, activity.seconds))
            if activity.spread != 1.0:
                self.spreads[position] = activity.spread
            self.once_count += activity.is_once
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
            numbers, functions, spreads, once_count = self._parts()
            self._hash = hash((numbers, *functions.items(), *spreads.items(), once_count)) or 1
        return self._hash

    def _parts(self) -> tuple[bytes, dict[int, Function], dict[int, float], int]:
        # As bytes, thousands of numbers are compared, and hashed, a hundred times as fast.
        return self._numbers.tobytes(), self.functions, self.spreads, self.once_count

    def __repr__(self) -> str:
        return f"Activities({list(self)})"

    @property
    def numbers(self) -> array[float]:
        """Value, fluctuation and seconds of each activity in turn; the value is 0 where it is a function."""
        return self._numbers

    @property
    def segment_count(self) -> int:
        """The number of activities, where each value of ``steps`` is one."""
        steps = [len(function.arguments) - 1 for function in self.functions.values() if function.name == "steps"]
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
        return max((*self._numbers[::3], *map(highest, self.functions.values())))  # 0 where they are functions


@dataclass(frozen=True, slots=True)
class MetricUse:
    """A workload's demand for one metric in addition to its plain load.

    :param metric: the quantity, one of :data:`fakedev.fleet.spec.quantities.ASKABLE`.
    :param activities: run at the same time as the plain ones, at the same pace, and repeat.
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
    :param uses: its demand for metrics in addition to the plain load, each metric once.
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
                activity,
                value=scaled(activity.value, own.percent / 100.0),
                fluctuation=(activity.fluctuation * own.percent + highest(activity.value) * own.fluctuation) / 100.0,
            )
            for activity, own in zip(self.activities, each_own, strict=True)
        )


#: When work of the configuration starts again: as the restart policies of pods in Kubernetes.
RESTARTS: Final = ("always", "on-failure", "never")
