"""The running workloads and their limits as arrays, and sums over the workloads of each device.

The order of a sum follows from the workloads' names alone. A sum of floats depends on its order from the third number
on. The order of arrival, or of an array, would give a device other last digits in a shard, after a reload, or because
of workloads elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.base.groups import grouped
from fakedev.base.steps import Steps
from fakedev.fleet.entities.randomness import Floats, Keys
from fakedev.fleet.entities.state import Mask, Positions, Rows, column
from fakedev.fleet.spec.quantities import AS_TRAFFIC, ENGINES, PROCESS_QUANTITIES
from fakedev.fleet.spec.workload_spec import Activities, Intensity, MetricUse, WorkloadSpec
from fakedev.fleet.workloads.demand import INTENSE, Capacity, MetricUses
from fakedev.fleet.workloads.fluctuation import first_noise, next_noise
from fakedev.fleet.workloads.limit_rows import LimitRows
from fakedev.fleet.workloads.profile import Profiles
from fakedev.fleet.workloads.workload import Workload, columns_of

Value = TypeVar("Value", bound=np.generic)

#: Numbers up to which a sum is the same in every order.
_ANY_ORDER: Final = 2
#: Devices of a workload, on average, from which on workloads are added one by one.
_WIDE: Final = 1_000
#: Pairs whose noise is drawn in one step.
_NOISY_AT_ONCE: Final = 30_000
#: Pairs that get the value of their workload in one step: 2 ms at most, when the memory is new.
_PAIRS_AT_ONCE: Final = 100_000


class DeviceSums:
    """Sums over P pairs of a workload and a device, added in the order of the workloads' keys.

    :param device: the device of each pair, shape (P,): grouped by workload, ascending in each.
    :param pair_counts: the pairs of each workload, shape (W,).
    :param keys: the workloads' keys of randomness, which follow from their names, shape (W,).
    :param kinds: K kinds of work, sorted by name.
    :param rows: the position of each workload's kind among them, shape (W,).
    :param uses: the pairs that demand a metric, by metric, each of shape (V,).
    """

    def __init__(
        self, device: Positions, pair_counts: Positions, keys: Keys, kinds: Sequence[str], rows: Positions,
        uses: Mapping[str, Positions],
    ) -> None:  # fmt: skip
        self._device, self._pair_counts, self._keys = device, pair_counts, keys
        self._uses = uses
        self._kinds, self._rows = kinds, rows
        self._kind_places: Positions | None = None

    @cached_property
    def _order(self) -> Positions | None:
        """The pairs in the order of their sums; None if every order gives the same sums."""
        crowds = np.bincount(self._device) > _ANY_ORDER
        if not crowds.any():
            return None
        by_keys = _by_keys(self._keys, self._pair_counts)
        is_crowded = crowds[self._device]
        if is_crowded.all():
            return by_keys
        order = np.arange(len(self._device))
        order[is_crowded] = by_keys[is_crowded[by_keys]]
        return order

    @cached_property
    def _places(self) -> Positions:
        """The devices of the pairs in that order."""
        return self._device if self._order is None else self._device[self._order]

    @cached_property
    def _wide(self) -> list[tuple[int, slice, Positions | slice]]:
        """If workloads have very many devices, the kind, the pairs and the devices of each, in the order of the sums.

        Each is added at once then: arrays of all pairs in that order would take most of the time.
        """
        if not len(self._keys) or len(self._device) < _WIDE * len(self._keys):
            return []
        ends = np.cumsum(self._pair_counts).tolist()
        found = []
        for row in np.argsort(self._keys, kind="stable").tolist():
            pairs = slice(ends[row] - int(self._pair_counts[row]), ends[row])
            devices = self._device[pairs]
            first, last = devices[[0, -1]].tolist()
            is_run = last - first == len(devices) - 1
            found.append((int(self._rows[row]), pairs, slice(first, last + 1) if is_run else devices))
        return found

    def prepare(self) -> None:
        """Find the order of the sums, in a step of its own: it takes as long as the sums, once for these workloads."""
        self._wide or self._places  # noqa: B018 - both are kept

    def by_device(self, values: Floats, count: int) -> Floats:
        """The sums over the pairs of each device, shape (count,).

        :param values: of the pairs, shape (P,).
        """
        if self._wide:
            sums = np.zeros(count)
            for _, pairs, devices in self._wide:
                sums[devices] += values[pairs]
            return sums
        return _sums(self._places, values, self._order, count)

    def by_kind(self, values: Floats, count: int) -> Floats:
        """As :meth:`by_device`, for each kind of work: shape (K, count); the count never changes."""
        kinds = len(self._kinds)
        if kinds == 1:
            return self.by_device(values, count)[np.newaxis]
        if self._wide:
            sums = np.zeros((kinds, count))
            for row, pairs, devices in self._wide:
                sums[row, devices] += values[pairs]
            return sums
        if self._kind_places is None:
            rows = np.repeat(self._rows, self._pair_counts)
            self._kind_places = (rows if self._order is None else rows[self._order]) * count + self._places
        return _sums(self._kind_places, values, self._order, kinds * count).reshape(kinds, count)

    def by_use(self, metric: str, amounts: Floats, count: int) -> Floats:
        """As :meth:`by_device`, for the pairs that demand a metric.

        :param amounts: what each of them demands, shape (V,).
        """
        order, device = self._use_orders.get(metric), self._device[self._uses[metric]]
        return _sums(device if order is None else device[order], amounts, order, count)

    @cached_property
    def _use_orders(self) -> Mapping[str, Positions]:
        """The pairs of each metric in the order of their sums; empty if every order gives the same sums."""
        if self._order is None:
            return {}
        ranks = np.empty(len(self._device), dtype=np.int64)
        ranks[self._order] = np.arange(len(self._device))
        return {metric: np.argsort(ranks[pairs]) for metric, pairs in self._uses.items()}

    def has_use(self, metric: str, count: int) -> Mask:
        """The devices with a workload that demands a metric, shape (count,)."""
        has = np.zeros(count, dtype=np.bool_)
        if metric in self._uses:
            has[self._device[self._uses[metric]]] = True
        return has


def _by_keys(keys: Keys, counts: Positions) -> Positions:
    """All pairs, grouped by workload, in the order of the workloads' keys: shape (P,).

    :param keys, counts: of the workloads and of their pairs, shape (W,).
    """
    ranked = np.argsort(keys, kind="stable")
    begins = np.cumsum(counts) - counts
    sizes = counts[ranked]
    order: Positions = np.repeat(begins[ranked] - np.cumsum(sizes) + sizes, sizes) + np.arange(counts.sum())
    return order


def _sums(places: Positions, values: Floats, order: Positions | None, count: int) -> Floats:
    """The sums of values by place, one value after the other: shape (count,).

    :param places: of the values, in their order.
    :param order: None: as they are.
    """
    weights = values if order is None else values[order]
    return np.asarray(np.bincount(places, weights=weights, minlength=count), dtype=np.float64)


Texts = NDArray[np.object_]

MEMORY = "memory_used_bytes"


@dataclass
class Table(Rows):
    """W workloads, and P pairs of a workload and one of its devices, grouped by workload.

    :ivar start, lasts: simulated seconds of the start, and from the start to the known end.
    :ivar ends: the verdict at the known end, as its position in :data:`fakedev.fleet.workloads.workload.ENDS`.
    :ivar services: keys of the services that the workloads are replicas of.
    :ivar is_work: whether the profile is work; is_open: whether its end is open: it is work, or lengths are drawn.
    :ivar is_owner: whether labels of its devices come from the workload.
    :ivar work, done: seconds of an open profile in all, and done so far.
    :ivar lag: seconds that work has lost to its slowest board.
    :ivar pace: factor of drawn lengths, compared with other workloads.
    :ivar speed: of the work on the workload's devices, relative to the device that it was measured on.
    :ivar measured_mhz, measured_capability: of the device that it was measured on; 0 if that is unknown.
    :ivar ease: factor from the measured load to the load on the workload's devices, for profiles of time.
    :ivar effort: factor of how much of the engines the load uses; 1 but for what :meth:`Workloads.drive` drives.
    :ivar peak: highest load of the profile, percent; load: mean load in the last tick, percent.
    :ivar is_fresh: whether the last tick was the workload's first tick.
    :ivar noise: of the pairs, within -1 to 1.
    :ivar waits: the share of its activity that a pair loses as its work waits for a slower board.
    :ivar share, before: load of the pairs in the last tick, and in the tick before it, percent.
    :ivar holds: 1 if the pair's memory follows from its load, 0 if the workload states how much it needs.
    :ivar worked_seconds, stalled_seconds, corrected_errors: tallies of the pairs, if any identity shows them.
    :ivar hidden_worked_seconds, hidden_stalled_seconds, hidden_corrected_errors: what of these was counted since the
        series of the device froze.
    :ivar uses: the demand for single metrics, by quantity.
    :ivar intense: load x intensity of the workloads whose intensity is not 100 %, as shares of 1.
    :ivar device_keys: keys of randomness of all devices.
    """

    profiles: Profiles = field(default_factory=Profiles)
    uses: Mapping[str, MetricUses] = field(default_factory=dict)
    limits: LimitRows = field(default_factory=LimitRows)
    intense: MetricUses = field(default_factory=MetricUses)
    device_keys: Keys = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    ids: Texts = column("workload", object)
    kinds: Texts = column("workload", object)
    keys: Keys = column("workload", np.uint64)
    start: Floats = column("workload")
    lasts: Floats = column("workload")
    ends: Positions = column("workload", np.uint8)
    services: Keys = column("workload", np.uint64)
    is_work: Mask = column("workload", np.bool_)
    is_open: Mask = column("workload", np.bool_)
    is_owner: Mask = column("workload", np.bool_)
    work: Floats = column("workload")
    done: Floats = column("workload")
    lag: Floats = column("workload")
    speed: Floats = column("workload")
    ease: Floats = column("workload")
    effort: Floats = column("workload")
    measured_mhz: Floats = column("workload")
    measured_capability: Floats = column("workload")
    pace: Floats = column("workload")
    peak: Floats = column("workload")
    load: Floats = column("workload")
    is_fresh: Mask = column("workload", np.bool_)
    pair_counts: Positions = column("workload", np.int64)
    device: Positions = column("pair", np.int64)
    noise: Floats = column("pair")
    waits: Floats = column("pair")
    share: Floats = column("pair")
    before: Floats = column("pair")
    holds: Floats = column("pair")
    worked_seconds: Floats = column("pair")
    stalled_seconds: Floats = column("pair")
    corrected_errors: Floats = column("pair")
    hidden_worked_seconds: Floats = column("pair")
    hidden_stalled_seconds: Floats = column("pair")
    hidden_corrected_errors: Floats = column("pair")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def work_left(self) -> Floats:
        """Remaining seconds of open profiles at the highest clock, shape (W,); meaningless for others."""
        left: Floats = (self.work - self.done) / self.speed
        return left

    def kept(self, keep: Mask) -> Steps[Table]:
        """The workloads where ``keep``, shape (W,), is true."""
        pairs = np.repeat(keep, self.pair_counts)
        yield
        uses = {metric: use.kept(keep, pairs) for metric, use in self.uses.items()}
        yield
        columns = yield from self._kept_steps(workload=keep, pair=pairs)
        return Table(
            self.profiles.kept(keep),
            {metric: use for metric, use in uses.items() if len(use.workload)},
            self.limits.kept(keep),
            self.intense.kept(keep, pairs),
            self.device_keys,
            **columns,
        )

    def joined(self, other: Table) -> Steps[Table]:
        """These workloads, followed by the other workloads."""
        uses = {}
        for metric in sorted({*self.uses, *other.uses}):
            mine, others = self.uses.get(metric, MetricUses()), other.uses.get(metric, MetricUses())
            uses[metric] = mine.joined(others, len(self), len(self.device))
        limits = self.limits.joined(other.limits, len(self))
        intense = self.intense.joined(other.intense, len(self), len(self.device))
        profiles = self.profiles.joined(other.profiles)
        yield
        columns = yield from self._joined_steps(other)
        return Table(profiles, uses, limits, intense, other.device_keys, **columns)

    def with_history(self, old: Table, new_of: Positions, count: int, seed: int, tick: int) -> Table:
        """These rows, as at the start of the workloads, with the history of the old rows of the same workloads.

        A new pair of a workload and a device begins as if the workload started with the next tick.

        :param old: rows of the same workloads in the same order.
        :param new_of: the new position of each old device, -1 if it was removed.
        :param count: the number of new devices.
        """
        was = self._former_pairs(old, new_of, count)
        uses = {
            metric: use.with_history(old.uses[metric], was, len(old.device)) if metric in old.uses else use
            for metric, use in self.uses.items()
        }
        columns = self._carried(old, was, "noise", "waits", "share", "before", *PROCESS_QUANTITIES)
        added = np.flatnonzero(was < 0)
        noise = columns.pop("noise").copy()
        noise[added] = first_noise(seed, self._pair_keys(added), tick)
        columns |= {name: getattr(old, name) for name in ("start", "done", "lag", "load", "is_fresh")}
        intense = self.intense.with_history(old.intense, was, len(old.device))
        return replace(self, uses=uses, intense=intense, noise=noise, **columns)

    def _former_pairs(self, old: Table, new_of: Positions, count: int) -> Positions:
        """The old position of each pair, -1 for a new pair: shape (P,)."""
        places = new_of[old.device]
        stays = np.flatnonzero(places >= 0)
        codes = old.owner[stays] * count + places[stays]
        order = np.argsort(codes, kind="stable")  # nearly sorted already
        codes, stays = codes[order], stays[order]
        wanted = self.owner * count + self.device
        if not len(codes):
            return np.full(len(wanted), -1, dtype=np.int64)
        found = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        return np.where(codes[found] == wanted, stays[found], -1)

    @cached_property
    def firsts(self) -> Positions:
        """The first pair of each workload, shape (W,)."""
        firsts: Positions = np.cumsum(self.pair_counts) - self.pair_counts
        return firsts

    @cached_property
    def owner(self) -> Positions:
        """The workload of each pair, shape (P,)."""
        return self.each(np.arange(len(self)))

    def each(self, values: NDArray[Value]) -> NDArray[Value]:
        """For each pair the value of its workload, shape (P,).

        :param values: of the workloads, shape (W,).
        """
        return np.repeat(values, self.pair_counts)

    def each_steps(self, values: NDArray[Value]) -> Steps[NDArray[Value]]:
        """As :meth:`each`, in steps of about _PAIRS_AT_ONCE pairs."""
        ends = np.cumsum(self.pair_counts)
        count = int(ends[-1]) if len(ends) else 0
        made, first = np.empty(count, dtype=values.dtype), 0
        for place in range(_PAIRS_AT_ONCE, count + _PAIRS_AT_ONCE, _PAIRS_AT_ONCE):
            after = int(np.searchsorted(ends, min(place, count))) + 1
            if after > first:
                if first:
                    yield
                begin = int(ends[first - 1]) if first else 0
                made[begin : ends[after - 1]] = np.repeat(values[first:after], self.pair_counts[first:after])
                first = after
        return made

    def busy(self, share: Floats, *, before: bool = False) -> Floats:
        """Load x intensity of each pair, percent, at most its load: shape (P,); ``share`` itself if that is the same.

        :param share: the loads, of the last tick or of the tick before it.
        """
        intense = self.intense
        if self.waits.any():
            share = share * (1.0 - self.waits)
        if not len(intense):
            return share
        busy, last = share.copy(), intense.before if before else intense.amount
        busy[intense.pair] = np.minimum(100.0 * last, share[intense.pair])
        return busy

    @cached_property
    def sums(self) -> DeviceSums:
        """Sums over the pairs of each device."""
        pairs = {metric: uses.pair for metric, uses in self.uses.items()}
        return DeviceSums(self.device, self.pair_counts, self.keys, *self.kinds_of_work, pairs)

    @cached_property
    def jobs(self) -> Positions | None:
        """The job of each workload, a number: workloads with one key are ranks of one. None: each is a job, (W,)."""
        keys, places = np.unique(self.keys, return_inverse=True)
        return None if len(keys) == len(self.keys) else places

    @cached_property
    def noisy(self) -> Positions | slice:
        """The pairs of workloads whose load or metrics fluctuate: only their noise is seen."""
        fluctuates = self.profiles.fluctuates.copy()
        for uses in (*self.uses.values(), self.intense):
            fluctuates[uses.workload[uses.profiles.fluctuates]] = True
        return slice(None) if fluctuates.all() else np.flatnonzero(self.each(fluctuates))

    @cached_property
    def noisy_keys(self) -> Keys:
        """The keys of randomness of the pairs :attr:`noisy`."""
        return self._pair_keys(self.noisy)

    def first_noise(self, seed: int, tick: int) -> Floats:
        """The noise of the pairs at their start, shape (P,): 0 where nobody sees it."""
        if not len(self.noisy_keys):
            return self.noise
        noise = np.zeros(len(self.device))
        noise[self.noisy] = first_noise(seed, self.noisy_keys, tick)
        return noise

    def next_noise(self, seed: int, tick: int, seconds: float) -> Steps[Floats]:
        """The noise of the pairs some seconds later, shape (P,)."""
        noise, keys = self.noise.copy(), self.noisy_keys
        for first in range(0, len(keys), _NOISY_AT_ONCE):
            span = slice(first, first + _NOISY_AT_ONCE)
            pairs = span if isinstance(self.noisy, slice) else self.noisy[span]
            noise[pairs] = next_noise(noise[pairs], seed, keys[span], tick, seconds)
            yield
        return noise

    def _pair_keys(self, pairs: Positions | slice) -> Keys:
        keys: Keys = self.keys[self.owner[pairs]] ^ self.device_keys[self.device[pairs]]
        return keys

    @cached_property
    def kinds_of_work(self) -> tuple[list[str], Positions]:
        """The kinds of work, sorted by name, and the position of each workload's kind among them, shape (W,)."""
        kinds = sorted(set(self.kinds.tolist())) or ["compute"]
        places = {kind: place for place, kind in enumerate(kinds)}
        return kinds, np.array([places[kind] for kind in self.kinds.tolist()], dtype=np.int64)


def table_of(started: Sequence[Workload], now_seconds: float, device_keys: Keys, capacity: Capacity) -> Table:
    """The rows of workloads that start; their noise and pace are 0.

    :param device_keys: keys of randomness of the devices, shape (devices,).
    """
    specs = [workload.spec for workload in started]
    nothing = np.zeros(len(started))
    rows = Table(
        Profiles.of([spec.activities for spec in specs]),
        {metric: MetricUses.of(uses) for metric, uses in _uses(specs).items()},
        LimitRows.of([workload.limits for workload in started]),
        MetricUses.of(_intense(specs)),
        ids=np.array([workload.workload_id for workload in started], dtype=object),
        kinds=np.array([spec.kind for spec in specs], dtype=object),
        start=np.full(len(started), now_seconds),
        done=nothing,
        lag=nothing,
        pace=nothing,
        load=nothing,
        is_fresh=np.ones(len(started), dtype=np.bool_),
        **columns_of(started),
    )
    counts = np.fromiter((len(workload.devices) for workload in started), np.int64, len(started))
    devices = np.concatenate([workload.devices for workload in started])
    return on_devices(rows, counts, devices, device_keys, capacity)


def _most(metric: str, devices: Positions, device_keys: Keys, capacity: Capacity) -> Floats:
    """100 % of a metric for each pair, shape (P,)."""
    most: Floats = capacity.most(metric)[devices]
    if metric == MEMORY and capacity.memory_share is not None:
        most = most * capacity.memory_share(device_keys[devices])
    return most


def on_devices(rows: Table, counts: Positions, devices: Positions, device_keys: Keys, capacity: Capacity) -> Table:
    """Rows of workloads with all columns that depend on their devices, as at the start of the workloads.

    :param rows: rows of the same workloads; their columns that depend on devices are replaced.
    :param counts: the number of devices of each workload, shape (W,).
    :param devices: the devices, grouped by workload, shape (P,).
    :param device_keys: keys of randomness of the devices, shape (devices,).
    """
    shares = _amount_shares(capacity, devices, counts)
    speed = _speeds(rows.measured_mhz, rows.measured_capability, counts, devices, shares, capacity)
    states_memory = np.zeros(len(counts), dtype=np.bool_)
    if MEMORY in rows.uses:
        states_memory[rows.uses[MEMORY].workload] = True
    firsts = np.cumsum(counts) - counts
    nothing = np.broadcast_to(0.0, len(devices))
    bandwidth = {AS_TRAFFIC: capacity.memory_bytes_per_second[devices] / shares} if AS_TRAFFIC in rows.uses else {}
    return replace(
        rows,
        uses={
            metric: uses.on_devices(
                firsts, counts, *_max_and_amounts(metric, _most(metric, devices, device_keys, capacity), shares),
                bandwidth.get(metric),
            )
            for metric, uses in rows.uses.items()
        },
        intense=rows.intense.on_devices(firsts, counts, np.broadcast_to(1.0, len(devices))),
        speed=np.where(rows.is_work, speed, 1.0),
        ease=np.where(rows.is_work, 1.0, 1.0 / speed),
        effort=np.ones(len(counts)),
        pair_counts=counts,
        device=devices,
        device_keys=device_keys,
        noise=nothing,
        waits=nothing,
        share=nothing,
        before=nothing,
        worked_seconds=nothing,
        stalled_seconds=nothing,
        corrected_errors=nothing,
        hidden_worked_seconds=nothing,
        hidden_stalled_seconds=nothing,
        hidden_corrected_errors=nothing,
        holds=np.repeat(1.0 - states_memory, counts) if states_memory.any() else np.broadcast_to(1.0, len(devices)),
    )


def speed_on(spec: WorkloadSpec, devices: Positions, capacity: Capacity) -> float:
    """The speed of the slowest of some devices, relative to the device of the workload's measurement; 1 if unknown."""
    mhz, capability = (np.array([float(value)]) for value in (spec.measured_frequency_mhz, spec.measured_capability))
    counts = np.array([len(devices)])
    return float(_speeds(mhz, capability, counts, devices, _amount_shares(capacity, devices, counts), capacity)[0])


def _amount_shares(capacity: Capacity, devices: Positions, counts: Positions) -> Floats:
    if capacity.amount_shares is None:
        return np.broadcast_to(1.0, len(devices))
    return capacity.amount_shares(devices, np.repeat(np.arange(len(counts)), counts))


def _speeds(
    measured_mhz: Floats, measured_capability: Floats, counts: Positions, devices: Positions, shares: Floats,
    capacity: Capacity,
) -> Floats:  # fmt: skip
    """The speed of each workload's slowest device, relative to the device that it was measured on: shape (W,).

    :param measured_mhz, measured_capability: of that device, shape (W,); 0 if unknown.
    :param counts, devices: as for :func:`on_devices`.
    :param shares: the share of a demanded amount for each pair, shape (P,).
    """
    if not (measured_mhz.any() or measured_capability.any()):
        return np.ones(len(counts))
    speed = np.ones(len(devices))
    if measured_mhz.any():
        by = np.repeat(measured_mhz, counts)
        speed = np.where(by > 0, capacity.clock_mhz[devices] / np.where(by > 0, by, 1.0), speed)
    if measured_capability.any():
        by = np.repeat(measured_capability, counts)
        faster = speed * capacity.capability[devices] / shares / np.where(by > 0, by, 1.0)
        speed = np.where(by > 0, faster, speed)
    slowest: Floats = np.minimum.reduceat(speed, np.cumsum(counts) - counts)
    return slowest


def _uses(specs: Sequence[WorkloadSpec]) -> dict[str, list[tuple[int, MetricUse]]]:
    """The demand for each metric: (position of the workload, its use of the metric)."""
    return grouped((use.metric, (place, use)) for place, spec in enumerate(specs) for use in spec.uses)


def _intense(specs: Sequence[WorkloadSpec]) -> list[tuple[int, MetricUse]]:
    """Load x intensity of the workloads whose intensity is not 100 %, as :func:`_uses`, in percent."""
    known: dict[tuple[Activities, tuple[Intensity, ...]], MetricUse] = {}
    found = []
    for place, spec in enumerate(specs):
        if spec.intensities:
            key = spec.activities, spec.intensities
            if key not in known:
                known[key] = MetricUse(INTENSE, spec.intense_activities, is_share=True)
            found.append((place, known[key]))
    return found


def _max_and_amounts(metric: str, most: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """100 % of a metric on some devices, and the part of a value in its unit that is demanded from each.

    :param most: the maximum of each device; a part of a board has the links of the whole board.
    :param shares: the share of a demanded amount for each device.
    """
    if metric in ENGINES or metric == "hung":
        return most, np.ones(len(shares))
    return most * shares if metric.startswith(("pcie_", "fabric_")) else most, shares
