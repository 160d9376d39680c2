"""The workloads' demand on devices in one tick, for plain load and single metrics, and the devices' capacity.

A metric that a workload demands besides its plain load has its own profile of values, which runs at the pace of the
plain profile and repeats. The arrays have values as shares of the profile's highest value, so that rounding is
relative to the values' size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple, Self

import numpy as np

from fakedev.fleet.entities.randomness import Floats, Keys
from fakedev.fleet.entities.state import Mask, Positions, Rows, column
from fakedev.fleet.spec.quantities import COUNTED, ENGINES, IMPLIED_USAGE, RATES
from fakedev.fleet.spec.value_functions import scaled
from fakedev.fleet.spec.workload_spec import Activities, MetricUse
from fakedev.fleet.workloads.draws import Course
from fakedev.fleet.workloads.profile import Profiles

_AS_LOADS: Final[Mapping[str, Floats]] = MappingProxyType({})
_NO_CONTEXTS: Final[Mask] = np.zeros(0, dtype=np.bool_)


class Swing(NamedTuple):
    """How the activity of D devices changes within a tick: as one that has only two values.

    :ivar high, low: the two, by the mean, shape (D,); both 1 where it does not change.
    :ivar share: the part of the tick with the higher one, shape (D,).
    """

    high: Floats
    low: Floats
    share: Floats

    @classmethod
    def of(cls, mean: Floats, variance: Floats, third: Floats) -> Self:
        """Two values with the same mean, variance and third central moment."""
        deviation = np.sqrt(np.maximum(variance, 0.0))
        changes = (mean > _LEAST_MEAN) & (deviation > _LEAST_SWING * mean)
        by_mean = np.divide(deviation, mean, out=np.zeros_like(mean), where=changes)
        skew = np.divide(third, deviation**3, out=np.zeros_like(mean), where=changes)
        up = 0.5 * (skew + np.sqrt(skew * skew + 4.0))
        return cls(1.0 + by_mean * up, np.maximum(1.0 - by_mean / up, 0.0), 1.0 / (1.0 + up * up))


#: Activity, and changes of it by its mean, that count as none.
_LEAST_MEAN: Final = 1e-6
_LEAST_SWING: Final = 1e-3


@dataclass(frozen=True)
class Demand:
    """Sums over all workloads, for D devices.

    :ivar loads: the time with a kernel, by kind of work, shares of 1, each of shape (D,); all kinds together at most 1
        on a device.
    :ivar held: the memory of workloads that do not state how much they need, a share of 1, shape (D,).
    :ivar asked: by quantity, the demand of its activities without the plain load, in its unit, each of shape
        (D,); for counters the increment in this tick. Not limited to what the device has.
    :ivar activity: how busy the engines are: load x intensity, by kind of work, each of shape (D,), reduced as the
        loads are. The same mapping as ``loads`` (the default) if all intensities are 100 %.
    :ivar contexts: devices on which a workload runs, whatever its load, shape (D,); by default none.
    :ivar swing: how the activity changes within the tick; None: not at all, as in short ticks.
    """

    loads: Mapping[str, Floats]
    held: Floats
    asked: Mapping[str, Floats] = field(default_factory=dict)
    activity: Mapping[str, Floats] = field(default_factory=lambda: _AS_LOADS)
    contexts: Mask = field(default_factory=lambda: _NO_CONTEXTS)
    swing: Swing | None = None

    def __post_init__(self) -> None:
        if self.activity is _AS_LOADS:
            object.__setattr__(self, "activity", self.loads)
        if self.contexts is _NO_CONTEXTS:
            object.__setattr__(self, "contexts", np.zeros(len(self.held), dtype=np.bool_))

    def with_loads(self, change: Callable[[Floats], Floats]) -> Self:
        """The demand with changed loads and activity: ``change`` makes the new array of a kind from the old one."""
        loads = {kind: change(load) for kind, load in self.loads.items()}
        if self.activity is self.loads:
            return replace(self, loads=loads, activity=loads)
        return replace(self, loads=loads, activity={kind: change(busy) for kind, busy in self.activity.items()})


#: Traffic that kernels make: who requests it runs kernels.
_KERNEL_QUANTITIES: Final = ("memory_bandwidth_ratio", "fabric_tx_bytes_per_second", "fabric_rx_bytes_per_second")


@dataclass(frozen=True)
class Capacity:
    """The capacity of D devices; all arrays of shape (D,).

    :ivar maxima: by quantity the value of 100 %; 0 on devices without the quantity.
    :ivar idle: by quantity the value of a device without work.
    :ivar holds_memory: whether a workload holds its memory while it runs; else memory follows the load.
    :ivar memory_total_bytes: all memory of the board; 0 if unknown.
    :ivar memory_bytes_per_second: the bandwidth of the memory; 0 if unknown.
    :ivar clock_mhz: the highest core clock; 0 if unknown.
    :ivar capability: the device type's; 0 if unknown.
    :ivar brought: kind of work to the values at its full load, by quantity.
    :ivar amount_shares: the share of a demanded amount for each of some devices, where several of them may be parts of
        one device. Takes the devices of several workloads, and a number for the workload of each device. None: 1.
    :ivar memory_share: what devices hold of a share of their memory that a workload demands, by their keys of
        randomness; None: all.
    """

    maxima: Mapping[str, Floats]
    idle: Mapping[str, Floats]
    holds_memory: Mask
    memory_total_bytes: Floats
    memory_bytes_per_second: Floats
    clock_mhz: Floats
    capability: Floats
    brought: Callable[[str], Mapping[str, Floats]] = field(repr=False)
    amount_shares: Callable[[Positions, Positions], Floats] | None = field(default=None, repr=False)
    memory_share: Callable[[Keys], Floats] | None = field(default=None, repr=False)

    def with_usage(self, demand: Demand) -> Demand:
        """A demand with the usage that requested traffic of memory and links implies.

        The kernels of the loads may be the same: the time that these take is not added.
        """
        names = [name for name in _KERNEL_QUANTITIES if name in demand.asked]
        if not names:
            return demand
        share = np.zeros(self.count)
        for name in names:
            most = self.most(name)
            share = np.maximum(share, np.divide(demand.asked[name], most, out=np.zeros(self.count), where=most > 0))
        used = np.zeros(self.count)
        for kind, load in demand.loads.items():
            used += load * self.brought(kind).get("usage_ratio", 0.0)
        implied = np.maximum(np.minimum(share, 1.0) - used, 0.0)
        return replace(demand, asked={**demand.asked, IMPLIED_USAGE: implied})

    @property
    def count(self) -> int:
        """D."""
        return len(self.holds_memory)

    def most(self, quantity: str) -> Floats:
        """The value of 100 % of a quantity, shape (D,): 0 on devices without it."""
        return self.maxima.get(quantity, np.zeros(self.count))


#: In place of a metric: load x intensity, with the draws of the load.
INTENSE: Final = "load"
#: Values that a faster device needs less of.
_EASED: Final = ENGINES | {INTENSE}
#: Means are rounded to this, as shares of the profile's highest value.
_DECIMALS: Final = 8
#: Sums of decimal fractions differ from a whole number by less than this.
_ROUNDING: Final = 1e-6


@dataclass
class MetricUses(Rows):
    """U workloads with a demand for the metric, with V devices in all.

    :ivar profiles: the values of each workload as shares of its highest value, shape (U,).
    :ivar workload: the workloads' positions in the table, shape (U,).
    :ivar is_share: whether the values are shares of the device's maximum, shape (U,).
    :ivar is_traffic: whether the values are bytes per second, for a metric that is a share, shape (U,).
    :ivar peak: the profile's highest value, in the metric's unit or as percent of the device's maximum, (U,).
    :ivar pair: positions in the table's pairs, shape (V,).
    :ivar unit: the profile's highest value on that device, in the metric's unit; 0 if it lacks the metric: (V,).
    :ivar amount, before: the demand in the last tick and in the tick before it, in the metric's unit, (V,).
    :ivar carried: for counters the fraction that is not yet counted, (V,).
    :ivar counted: for counters the count so far, (V,).
    """

    profiles: Profiles = field(default_factory=Profiles)
    workload: Positions = column("use", np.int64, "workload")
    pair_counts: Positions = column("use", np.int64)
    is_share: Mask = column("use", np.bool_)
    is_traffic: Mask = column("use", np.bool_)
    peak: Floats = column("use")
    pair: Positions = column("pair", np.int64, "table_pair")
    unit: Floats = column("pair")
    amount: Floats = column("pair")
    before: Floats = column("pair")
    carried: Floats = column("pair")
    counted: Floats = column("pair")

    def __len__(self) -> int:
        return len(self.workload)

    @classmethod
    def of(cls, uses: Sequence[tuple[int, MetricUse]]) -> MetricUses:
        """The uses of some workloads, without devices.

        :param uses: (position of the workload, its use of the metric).
        """
        if not uses:
            return cls()
        # Thousands of workloads share few profiles: each object is scaled once.
        each_once = {id(use.activities): use.activities for _, use in uses}
        highest = {key: sums.highest for key, sums in each_once.items()}
        by_highest = {key: _by_highest(sums, highest[key]) for key, sums in each_once.items()}
        peaks = [highest[id(use.activities)] for _, use in uses]
        profiles = Profiles.of([by_highest[id(use.activities)] for _, use in uses])
        workload = np.array([place for place, _ in uses], dtype=np.int64)
        is_share, is_traffic = (
            np.array(flags) for flags in zip(*[(use.is_share, use.is_traffic) for _, use in uses], strict=True)
        )
        return cls(profiles, workload, is_share=is_share, is_traffic=is_traffic, peak=np.array(peaks))

    def on_devices(
        self,
        firsts: Positions,
        counts: Positions,
        most: Floats,
        amount: Floats | None = None,
        bandwidth: Floats | None = None,
    ) -> MetricUses:
        """The same uses at their start on the devices of their workloads.

        :param firsts, counts: of each workload's pairs, shape (W,).
        :param most: 100 % of the metric for each pair, shape (P,).
        :param amount: the part of a value in the metric's unit that each pair demands, shape (P,); None: all of it.
        :param bandwidth: bytes per second of which the metric is a share, shape (P,); None: it is no such share.
        """
        pair_counts = counts[self.workload]
        begins = np.repeat(np.cumsum(pair_counts) - pair_counts, pair_counts)
        pair = np.repeat(firsts[self.workload], pair_counts) + np.arange(pair_counts.sum()) - begins
        has = (most[pair] > 0) * (1.0 if amount is None else amount[pair])
        if bandwidth is not None:
            known = bandwidth[pair] > 0
            as_share = np.divide(has, bandwidth[pair], out=np.zeros(len(pair)), where=known)
            has = np.where(np.repeat(self.is_traffic, pair_counts), as_share, has)
        shares = np.repeat(self.is_share, pair_counts)
        unit = np.repeat(self.peak, pair_counts) * np.where(shares, most[pair] / 100.0, has)
        zeros = np.zeros(len(pair))
        fresh = replace(self, amount=zeros, before=zeros, carried=zeros, counted=zeros)
        return replace(fresh, pair_counts=pair_counts, pair=pair, unit=unit)

    def kept(self, keep: Mask, keep_pairs: Mask) -> MetricUses:
        """The uses of the workloads, shape (W,), and pairs, (P,), that are kept, with their new positions."""
        uses, pairs = keep[self.workload], keep_pairs[self.pair]
        columns = self._kept(use=uses, pair=pairs, workload=keep, table_pair=keep_pairs)
        return MetricUses(self.profiles.kept(uses), **columns)

    def joined(self, other: MetricUses, workloads: int, pairs: int) -> MetricUses:
        """These uses, followed by the other uses, whose positions begin at ``workloads`` and ``pairs``."""
        columns = self._joined(other, workload=workloads, table_pair=pairs)
        return MetricUses(self.profiles.joined(other.profiles), **columns)

    def with_history(self, old: MetricUses, was: Positions, pairs: int) -> MetricUses:
        """These uses, with the demand and counts of the old pairs.

        :param was: the old position of each of the table's pairs, -1 for a new pair: shape (P,).
        :param pairs: the number of old pairs.
        """
        rows = np.full(pairs, -1, dtype=np.int64)
        rows[old.pair] = np.arange(len(old.pair))
        pair_was = was[self.pair]
        row_was = np.where(pair_was >= 0, rows[pair_was], -1)
        return replace(self, **self._carried(old, row_was, "amount", "before", "carried", "counted"))

    def ask(
        self, metric: str, course: Course, speed: Floats, ease: Floats, noise: Floats, seconds: float, waits: Floats
    ) -> Floats:
        """The demand in a tick on each of the V devices, in the metric's unit; for counters the increment.

        :param course: of all workloads, as for their loads.
        :param speed, ease: factors of rates in bytes, and of the load of engines: shape (W,).
        :param noise: of all pairs, shape (P,).
        :param seconds: the length of the tick; 0 for the first instant, in which counters do not grow.
        :param waits: the share of all that moves or keeps engines busy that is missing, of all pairs, shape (P,).
        """
        of = self.workload
        mean, fluctuation = course.means(self.profiles, metric, of, _DECIMALS)
        if metric in RATES:
            mean, fluctuation = (value * np.where(self.is_share, 1.0, speed[of]) for value in (mean, fluctuation))
        elif metric in _EASED:
            mean, fluctuation = (each * np.where(self.is_traffic, speed[of], ease[of]) for each in (mean, fluctuation))
        share = np.repeat(mean, self.pair_counts) + np.repeat(fluctuation, self.pair_counts) * noise[self.pair]
        amount = np.maximum(share, 0.0) * self.unit
        if (metric in RATES or metric in _EASED) and waits.any():
            amount = amount * (1.0 - waits[self.pair])
        if metric in _EASED:
            amount = np.minimum(amount, 1.0)
        if metric in COUNTED:
            total = self.carried + amount * seconds
            amount = np.floor(total + _ROUNDING)
            self.carried = total - amount
            self.counted = self.counted + amount
        self.before, self.amount = self.amount, amount
        return amount


def _by_highest(activities: Activities, peak: float) -> Activities:
    """The activities with values as shares of the highest value."""
    if not peak:
        return activities
    return Activities(
        replace(
            activity,
            value=1.0 if activity.value == peak else scaled(activity.value, 1.0 / peak),
            fluctuation=activity.fluctuation / peak,
        )
        for activity in activities
    )
