"""The running workloads: their devices, demand, shares of quantities and known ends."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from fakedev.base.errors import Refused, unknown_name
from fakedev.base.steps import AT_ONCE, Steps, result_of, spans
from fakedev.fleet.entities.randomness import Floats, Keys
from fakedev.fleet.entities.reindex import Reindex
from fakedev.fleet.entities.state import Level, Mask, Positions
from fakedev.fleet.spec.limits import entity_key
from fakedev.fleet.spec.quantities import ASKABLE, COUNTED, CPU_CORES, ENGINES, RATES
from fakedev.fleet.spec.workload_spec import FOREVER
from fakedev.fleet.workloads.demand import INTENSE, Capacity, Demand
from fakedev.fleet.workloads.lengths import ROUNDING_SECONDS, course_of, pace_of
from fakedev.fleet.workloads.limit_rows import LimitRows
from fakedev.fleet.workloads.owners import Holds
from fakedev.fleet.workloads.swings import swing_of
from fakedev.fleet.workloads.table import MEMORY, Table, on_devices, table_of
from fakedev.fleet.workloads.workload import ENDS, Verdict, Workload

_MEMORY_RATIO: Final = "memory_used_ratio"
_USAGE: Final = "usage_ratio"
#: What workloads request of engines and links, of which a device has a limited amount.
_DIVIDED: Final = (ENGINES | RATES).difference(COUNTED)
#: All pairs.
_ALL: Final = slice(None)

#: The quantities of which a workload has a share; all others are of boards only.
BROUGHT: Final = frozenset((_USAGE, _MEMORY_RATIO, *ASKABLE))


#: Pairs of workloads and devices that start in one step, and segments of their profiles.
_PAIRS_AT_ONCE: Final = 20_000
_SEGMENTS_AT_ONCE: Final = 4_000


def _groups(workloads: Sequence[Workload]) -> Iterator[Sequence[Workload]]:
    """Workloads that start in one step."""
    first = pairs = segments = 0
    profiles: set[int] = set()
    for place, workload in enumerate(workloads):
        activities, size = workload.spec.activities, 0
        if id(activities) not in profiles:  # thousands of workloads share few
            size = activities.segment_count
        is_full = pairs + len(workload.devices) > _PAIRS_AT_ONCE or segments + size > _SEGMENTS_AT_ONCE
        if pairs and (is_full or place - first == AT_ONCE):
            yield workloads[first:place]
            first, pairs, segments = place, 0, 0
            profiles.clear()
        pairs += len(workload.devices)
        segments += size
        profiles.add(id(activities))
    yield workloads[first:]


class Oversubscription(NamedTuple):
    """The demand on each of D devices in a tick as a multiple of the device, at least 1: arrays of shape (D,).

    Kept from the tick, because workloads that ended with it also had only their share.

    :param load: from the loads of the workloads.
    :param peak: from the highest loads of the workloads whose memory follows from their loads.
    """

    load: Floats
    peak: Floats


class WorkShares:
    """The amounts of P pairs of a workload and a device in the last tick; for counters the total so far.

    :param crowds: of that tick.
    :param before: of the tick before the last one, in which workloads of the last one had nothing.
    """

    def __init__(self, table: Table, capacity: Capacity, crowds: Oversubscription, *, before: bool = False) -> None:
        self._table = table
        self._capacity = capacity
        self._crowds = crowds
        self._is_before = before
        share = np.maximum(table.before if before else table.share, 0.0) / 100.0
        #: The load of each pair, reduced to the room of its device, as a share of 1: shape (P,).
        self.parts = share / crowds.load[table.device]
        #: Load x intensity, likewise.
        loads = 100.0 * share
        busy = table.busy(loads, before=before)
        self._busy = self.parts if busy is loads else busy / 100.0 / crowds.load[table.device]

    def of(self, quantity: str, pairs: Positions | slice = _ALL) -> Floats:
        """The amount of a quantity (one of BROUGHT) of some pairs, in their order: by default of all, shape (P,)."""
        table = self._table
        if quantity == _MEMORY_RATIO:
            total = self._capacity.memory_total_bytes[table.device[pairs]]
            return np.divide(self.of(MEMORY, pairs), total, out=np.zeros(len(total)), where=total > 0)
        if quantity == MEMORY:
            brought = self._held_memory(pairs)
        else:
            brought = (self.parts if quantity == _USAGE else self._busy)[pairs] * self._by_load(quantity, pairs)
        uses = table.uses.get(quantity)
        if uses is not None:
            last = uses.before if self._is_before else uses.amount
            used = np.zeros(len(table.device))
            used[uses.pair] = uses.counted if quantity in COUNTED else last
            brought += used[pairs]
        return brought

    def by_workload(self) -> tuple[dict[str, Floats], dict[str, Mask]]:
        """By quantity the sum over each workload's devices, and which workloads have it: shape (W,).

        For the usage the mean. Counters and hangs are there only if a workload demands them.
        """
        table = self._table
        arrays, present = {}, {}
        of_load = {quantity for kind in table.kinds_of_work[0] for quantity in self._capacity.brought(kind)}
        for quantity in (_USAGE, *ASKABLE):
            has = self._capacity.most(quantity)[table.device] > 0
            if has.any() and (quantity in table.uses or quantity in of_load):
                arrays[quantity] = np.add.reduceat(self.of(quantity) * has, table.firsts)
                present[quantity] = np.logical_or.reduceat(has, table.firsts)
        if _USAGE in arrays:
            arrays[_USAGE] = arrays[_USAGE] / table.pair_counts
        return arrays, present

    def _held_memory(self, pairs: Positions | slice) -> Floats:
        """The memory of some pairs, as far as their workloads do not state how much they need."""
        table = self._table
        device, owner, holds = table.device[pairs], table.owner[pairs], table.holds[pairs]
        if self._is_before:
            holds = holds * ~table.is_fresh[owner]
        peaks = table.peak[owner] / 100.0 * holds
        held = peaks / self._crowds.peak[device]
        share = np.where(self._capacity.holds_memory[device], held, self.parts[pairs] * holds)
        return share * self._by_load(MEMORY, pairs)

    def _by_load(self, quantity: str, pairs: Positions | slice) -> Floats:
        """The amount of a quantity at full load of the kind of work of some pairs."""
        table = self._table
        kinds, rows = table.kinds_of_work
        nothing = np.zeros(self._capacity.count)
        full = np.array([self._capacity.brought(kind).get(quantity, nothing) for kind in kinds])
        brought: Floats = full[rows[table.owner[pairs]], table.device[pairs]]
        return brought

    def by_device(self, values: Floats) -> Floats:
        """The sums over the pairs of each device, shape (D,)."""
        return self._table.sums.by_device(values, self._capacity.count)


class Workloads:
    """All workloads of a fleet, by id; the running workloads also as arrays.

    :param device_keys: keys of randomness of the devices, shape (devices,).
    :param epoch_seconds: wall time of tick 0, in seconds since 1970: some loads follow the time of day.
    :ivar changes: how often workloads started or ended.
    """

    def __init__(self, seed: int, device_keys: Keys, capacity: Capacity, epoch_seconds: float = 0.0) -> None:
        self._seed, self._epoch_seconds = seed, epoch_seconds
        self._device_keys = device_keys
        self._capacity, self._count = capacity, capacity.count
        self.table = Table()
        self.by_id: dict[str, Workload] = {}
        self._by_name: dict[str, dict[str, None]] = {}
        self._held: Floats | None = None
        self._contexts: Mask | None = None
        self.forget_crowds()
        self.changes = 0
        #: The workloads that were driven last, and their rows.
        self._driven: tuple[tuple[int | str, ...], Positions] = (), np.zeros(0, dtype=np.int64)

    def drive(self, driven: Mapping[str, tuple[float, float]]) -> None:
        """Scale the loads of running workloads, from the next tick on.

        :param driven: by id the factor of the load, and the factor of the intensity.
        """
        if self._driven[0] != (self.changes, *driven):
            rows = self.rows_of([*driven])
            self._driven = (self.changes, *driven), np.array([rows.get(each, -1) for each in driven], dtype=np.int64)
        rows_driven = self._driven[1]
        runs = rows_driven >= 0
        for name, values in zip(("ease", "effort"), zip(*driven.values(), strict=True), strict=False):
            column = getattr(self.table, name).copy()
            column[rows_driven[runs]] = np.array(values)[runs]
            setattr(self.table, name, column)

    def accept(self, workload: Workload) -> None:
        """Add a workload, which :meth:`start` starts later."""
        self.by_id[workload.workload_id] = workload
        self._by_name.setdefault(workload.spec.name, {})[workload.workload_id] = None

    def find(self, word: str) -> list[str]:
        """The ids that a word means: one id, or all workloads of that name, oldest first."""
        return [word] if word in self.by_id else list(self._by_name.get(word, {}))

    def unknown(self, word: str) -> Refused:
        """The error for a word that means no workload, or only some that end already."""
        names = self._by_name.keys() - {word} if word in self._by_name else self._by_name.keys()
        return Refused("unknown-name", unknown_name("workload", word, names), "workload")

    def forget(self, workload_ids: Iterable[str]) -> None:
        """Remove workloads that are not in the arrays."""
        for workload_id in workload_ids:
            name = self.by_id.pop(workload_id).spec.name
            names = self._by_name[name]
            del names[workload_id]
            if not names:
                del self._by_name[name]

    def end(self, ended: Sequence[str], rows: Mask) -> Steps[None]:
        """Remove ended workloads.

        :param rows: theirs in the table, by rows_with().
        """
        self._changed()
        self.table = yield from self.table.kept(~rows)
        for span in spans(len(ended)):
            yield
            self.forget(ended[span])

    def start(self, started: Sequence[Workload], tick: int, now_seconds: float) -> Steps[None]:
        """Add started workloads to the arrays, from ``now_seconds`` on.

        :param tick: the last tick that was done.
        """
        self._changed()
        tables = []
        for group in _groups(started):
            yield
            for workload in group:
                workload.start_seconds = now_seconds
            new = table_of(group, now_seconds, self._device_keys, self._capacity)
            tables.append(
                replace(new, pace=pace_of(self._seed, new.keys), noise=new.first_noise(self._seed, tick))
            )
        while len(tables) > 1:  # in pairs: one after the other, the first would be copied again and again
            joined = []
            for first, *second in (tables[place : place + 2] for place in range(0, len(tables), 2)):
                yield
                joined.append((yield from first.joined(second[0])) if second else first)
            tables = joined
        yield
        self.table = yield from self.table.joined(tables[0])

    def _changed(self) -> None:
        self.changes += 1
        self._held = self._contexts = None

    def rows_with(self, ids: Collection[str]) -> Steps[Mask]:
        """The rows of some workloads in the table, however many: shape (W,)."""
        rows = np.zeros(len(self.table), dtype=np.bool_)
        for span in spans(len(rows)):
            rows[span] = [workload_id in ids for workload_id in self.table.ids[span].tolist()]
            yield
        return rows

    def holds(self, rows: Mask) -> Holds:
        """The devices that get labels from some workloads.

        :param rows: of the workloads, shape (W,).
        """
        table = self.table
        pairs = (rows & table.is_owner)[table.owner]
        return Holds(table.ids, table.owner[pairs], table.device[pairs])

    def forget_crowds(self) -> None:
        """No device was asked for more than it has, as before the first tick."""
        ones = np.ones(self._count)
        self._crowds = self._crowds_before = Oversubscription(ones, ones)

    def reindex(
        self, moves: Reindex, chosen: Collection[str], device_keys: Keys, capacity: Capacity,
        quantities: Collection[str], tick: int,
    ) -> None:  # fmt: skip
        """Give the running workloads the new positions of their devices.

        :param chosen: ids of the workloads that already have their new devices and limits.
        :param device_keys, capacity, quantities: of the new devices; limits of other quantities are removed.
        :param tick: the last tick that was done.
        """
        self._changed()
        self._device_keys, self._capacity, self._count = device_keys, capacity, capacity.count
        ones = np.ones(self._count)
        self._crowds = self._crowds_before = Oversubscription(*(moves.carried(crowd, ones) for crowd in self._crowds))
        old = self.table
        if not len(old):
            return
        known = [row for row, workload_id in enumerate(old.ids.tolist()) if workload_id in chosen] if chosen else []
        counts, devices = self._followed(moves, np.array(known, dtype=np.int64))
        limits = old.limits
        lost = [rows for quantity, rows in limits.by_quantity.items() if quantity not in quantities]
        for row in np.unique(limits.workload[np.concatenate(lost)]).tolist() if lost else ():
            workload = self._of_row(row)
            workload.limits = tuple(limit for limit in workload.limits if limit.quantity in quantities)
        if lost or np.isin(limits.workload, known).any() or any(self._of_row(row).limits for row in known):
            limits = LimitRows.of([workload.limits for workload in self.running()])
        fresh = on_devices(replace(old, limits=limits), counts, devices, device_keys, capacity)
        self.table = fresh.with_history(old, moves.new_of, self._count, self._seed, tick)

    def _of_row(self, row: int) -> Workload:
        return self.by_id[self.table.ids[row]]

    def _followed(self, moves: Reindex, chosen: Positions) -> tuple[Positions, Positions]:
        """Give running workloads the new positions of their remaining devices, ascending.

        :param chosen: rows of the workloads that already have their new devices.
        :returns: the number of devices of each workload, shape (W,), and all devices, grouped by workload.
        """
        table = self.table
        owners, places = table.owner, moves.new_of[table.device]
        others = np.unique(owners[places != table.device])
        is_chosen = np.zeros(len(table), dtype=np.bool_)
        is_chosen[chosen] = True
        stays = (places >= 0) & ~is_chosen[owners]
        given = [self._of_row(row).devices for row in chosen.tolist()]
        owners = np.concatenate((owners[stays], np.repeat(chosen, [len(devices) for devices in given])))
        places = np.concatenate((places[stays], *given))
        order = np.argsort(owners * (int(places.max(initial=0)) + 1) + places, kind="stable")
        places = places[order]
        counts = np.bincount(owners, minlength=len(table))
        ends = np.cumsum(counts)
        others = others[~is_chosen[others]]
        begins = (ends - counts)[others].tolist()
        for workload_id, begin, end in zip(table.ids[others].tolist(), begins, ends[others].tolist(), strict=True):
            self.by_id[workload_id].devices = places[begin:end]
        return counts, places

    def demand(
        self, tick: int, start_seconds: float, end_seconds: float, pace: Mapping[str, Floats] = MappingProxyType({})
    ) -> Demand:
        """See :meth:`demand_steps`: all of them at once."""
        return result_of(self.demand_steps(tick, start_seconds, end_seconds, pace))

    def demand_steps(
        self, tick: int, start_seconds: float, end_seconds: float, pace: Mapping[str, Floats] = MappingProxyType({})
    ) -> Steps[Demand]:
        """The workloads' demand on each device over one tick; the noise of every pair takes one step.

        Loads of several workloads add up; if the sum is over 1, each gets its share of 1.

        :param tick: 0 for the first instant, in which counters do not grow.
        :param pace: the speed of each kind of work on each device, shape (devices,); full speed if missing.
        """
        table = self.table
        seconds = end_seconds - start_seconds
        wall_seconds = self._epoch_seconds + start_seconds
        rates, table.waits = self._rates(pace)
        course = course_of(table, self._seed, start_seconds, end_seconds, wall_seconds, rates)
        yield
        table.done = course.done
        table.lag = table.lag + np.where(table.is_work, np.maximum(1.0 - rates / table.speed, 0.0) * seconds, 0.0)
        load, fluctuation = course.means(table.profiles, INTENSE)
        load, fluctuation = load * table.ease, fluctuation * table.ease
        used = table.ease * table.effort
        share = yield from table.each_steps(load)
        yield
        if len(table.noisy_keys):
            yield
            table.noise = yield from table.next_noise(self._seed, tick, seconds)
            share = share + (yield from table.each_steps(fluctuation)) * table.noise
        if CPU_CORES in pace and CPU_CORES in table.uses:
            # Boards wait for their data: they do less, and ask their CPU for as much.
            pairs = table.uses[CPU_CORES].pair
            share[pairs] = share[pairs] * pace[CPU_CORES][table.device[pairs]]
        if (table.ease > 1.0).any():
            most = np.where(table.ease > 1.0, 100.0, np.inf)
            load, share = np.minimum(load, most), np.minimum(share, table.each(most))
        table.load = load
        table.before, table.share = table.share, share
        table.is_fresh = table.start >= start_seconds
        self._crowds_before = self._crowds
        yield
        table.sums.prepare()
        yield
        if self._held is None:
            memory = (yield from table.each_steps(table.peak)) * table.holds
            yield
            self._held = self._hold(memory)
            yield
        held = self._held
        asked = {}
        for metric, uses in table.uses.items():
            amount = uses.ask(metric, course, table.speed, used, table.noise, seconds if tick else 0.0, table.waits)
            asked[metric] = table.sums.by_use(metric, amount, self._count)
            yield
        if len(table.intense):
            table.intense.ask(INTENSE, course, table.speed, used, table.noise, seconds, table.waits)
        yield
        loads, activity, crowd = self._by_kind(share)
        self._crowds = self._crowds._replace(load=np.maximum(crowd, 1.0))
        if self._contexts is None:
            self._contexts = np.bincount(table.device, minlength=self._count) > 0
        yield
        swing = swing_of(table, course, share, self._count, seconds)
        return Demand(loads, self._held_share(loads, held), asked, activity, self._contexts, swing)

    @property
    def count_work(self) -> bool:
        """Whether any workload's seconds are work, so that the pace matters."""
        return bool(self.table.is_work.any())

    @property
    def follows_pace(self) -> bool:
        """Whether the pace changes anything: it slows work, and boards that wait for their CPU."""
        return self.count_work or CPU_CORES in self.table.uses

    def _rates(self, pace: Mapping[str, Floats]) -> tuple[Floats, Floats]:
        """The speed of each workload, shape (W,), and the share of activity that each pair waits, (P,).

        Work is as fast as the slowest device of its job; the others wait for that one. Where workloads asked for more
        of a device, engine or link than there is in the last tick, each has its part of it.
        """
        table = self.table
        nothing = np.broadcast_to(0.0, len(table.device))
        if not table.is_work.any():
            return np.ones(len(table)), nothing
        kinds, rows = table.kinds_of_work
        paces = np.array([pace.get(kind, np.ones(self._count)) for kind in kinds]) / self._crowds.load
        own = paces[table.each(rows), table.device]
        for metric in table.uses.keys() & pace.keys():
            pairs = table.uses[metric].pair
            own[pairs] = np.minimum(own[pairs], pace[metric][table.device[pairs]])
        for metric in table.uses.keys() & _DIVIDED:
            uses, has = table.uses[metric], self._capacity.most(metric)
            asked = table.sums.by_use(metric, uses.amount, self._count)
            if (short := (asked > has) & (has > 0)).any():
                parts = np.divide(has, asked, out=np.ones(self._count), where=short)
                own[uses.pair] = np.minimum(own[uses.pair], parts[table.device[uses.pair]])
        slowest = np.minimum.reduceat(own, table.firsts)
        if table.jobs is not None:
            of_jobs = np.ones(int(table.jobs.max()) + 1)
            np.minimum.at(of_jobs, table.jobs, slowest)
            slowest = of_jobs[table.jobs]
        rates = np.where(table.is_work, slowest * table.speed, 1.0)
        if own.min() == own.max():
            return rates, nothing
        return rates, np.where(table.each(table.is_work), 1.0 - table.each(slowest) / own, 0.0)

    def _by_kind(self, share: Floats) -> tuple[dict[str, Floats], dict[str, Floats], Floats]:
        """Loads and activity by kind of work (the same mapping if all intensities are 100 %), and all demand."""
        table, count = self.table, self._count
        kinds = table.kinds_of_work[0]

        def sums(values: Floats) -> Floats:
            return np.maximum(table.sums.by_kind(values, count) / 100.0, 0.0)

        loads = sums(share)
        # Summed row by row, so that the last digit does not depend on the other kinds in use.
        total = np.zeros(count)
        for row in loads:
            total = total + row
        most = np.maximum(total, 1.0)
        crowd = total
        if len(kinds) > 1 or share.min(initial=0.0) < 0.0:
            crowd = table.sums.by_device(np.maximum(share, 0.0), count) / 100.0
        shown = dict(zip(kinds, loads / most, strict=True))
        busy = table.busy(share)
        if busy is share:
            return shown, shown, crowd
        return shown, dict(zip(kinds, sums(busy) / most, strict=True)), crowd

    def _hold(self, memory: Floats) -> Floats:
        """The memory that workloads hold while they run, as shares of 1; kept until workloads change.

        :param memory: of each pair, in percent, shape (P,).
        """
        held = self.table.sums.by_device(memory, self._count) / 100.0
        self._crowds = self._crowds._replace(peak=np.maximum(held, 1.0))
        return np.minimum(held, 1.0)

    def _held_share(self, loads: Mapping[str, Floats], held: Floats) -> Floats:
        """The memory of workloads that do not state how much they need, as shares of 1: shape (devices,).

        On devices that hold memory while workloads run: the sum of the profiles' highest loads, at most 1. On others:
        the loads.
        """
        table, capacity = self.table, self._capacity
        if capacity.holds_memory.all():
            return held
        total = sum(loads.values(), np.zeros(self._count))
        if MEMORY in table.uses:
            holding = table.sums.by_device(self.shares().parts * table.holds, self._count)
            # Only there: another sum on other devices would have other last digits.
            total = np.where(table.sums.has_use(MEMORY, self._count), holding, total)
        return np.where(capacity.holds_memory, held, np.minimum(total, 1.0))

    def shares(self) -> WorkShares:
        """Each workload's share of its devices in the last tick."""
        return WorkShares(self.table, self._capacity, self._crowds)

    def shares_before(self) -> WorkShares:
        """As :meth:`shares`, in the tick before the last one."""
        return WorkShares(self.table, self._capacity, self._crowds_before, before=True)

    def running(self, ids: Collection[str] | None = None) -> list[Workload]:
        """The running workloads, in order of their start.

        :param ids: only the workloads with these ids; None: all.
        """
        return [self.by_id[workload_id] for workload_id in self.table.ids.tolist() if ids is None or workload_id in ids]

    def on_devices(self, which: Mask) -> Iterator[tuple[Workload, int]]:
        """Running workloads on any of the devices ``which``, shape (devices,), each with its first such device."""
        if not which.any() or not len(self.table):
            return
        table = self.table
        pairs = np.flatnonzero(which[table.device])
        firsts = pairs[np.flatnonzero(np.diff(table.owner[pairs], prepend=-1))]
        for span in spans(len(firsts)):
            ids, devices = table.ids[table.owner[firsts[span]]].tolist(), table.device[firsts[span]].tolist()
            yield from zip(map(self.by_id.__getitem__, ids), devices, strict=True)

    def rows_of(self, ids: Collection[str]) -> dict[str, int]:
        """The rows of some workloads, at most hundreds, in the table, by id, without those that do not run yet."""
        wanted = [self.by_id[workload_id].key for workload_id in ids if workload_id in self.by_id]
        if not wanted:
            return {}
        # By their keys: to compare 100,000 numbers takes a fifth of the time of as many texts.
        keys = np.sort(np.array([entity_key("workload", key) for key in wanted], dtype=np.uint64))
        table = self.table
        rows = np.flatnonzero(keys[np.minimum(np.searchsorted(keys, table.keys), len(keys) - 1)] == table.keys)
        found = dict(zip(table.ids[rows].tolist(), rows.tolist(), strict=True))
        return {workload_id: found[workload_id] for workload_id in ids if workload_id in found}

    def load_percents(self, rows: Mapping[str, int]) -> dict[str, float]:
        """The mean load of workloads in the last tick, without fluctuation, by id.

        :param rows: from :meth:`rows_of`.
        """
        return dict(zip(rows, self.table.load[list(rows.values())].tolist(), strict=True))

    def lag_seconds(self, workload_id: str) -> float:
        """The seconds that a workload has lost to slow boards; 0 where it does not run."""
        row = self.rows_of([workload_id]).get(workload_id)
        return 0.0 if row is None else float(self.table.lag[row])

    def work_left(self, rows: Mapping[str, int]) -> dict[str, float]:
        """Remaining seconds at the highest clock, by id, of workloads whose profile has an open end.

        :param rows: from :meth:`rows_of`.
        """
        table = self.table
        places = np.array(list(rows.values()), dtype=np.int64)
        places = places[table.is_open[places]]
        return dict(zip(table.ids[places].tolist(), table.work_left[places].tolist(), strict=True))

    def level(self, now_seconds: float) -> Level:
        """The quantities of each running workload, in the order of :meth:`running`: shape (W,).

        ``devices``; ``load_ratio``, without fluctuation; ``usage_ratio``, the mean of its devices; memory, bandwidths
        and all else that workloads add, summed over its devices, by quantity; ``run_seconds``; ``progress_ratio``, the
        done part of its profile, if the profile has an end; ``remaining_seconds`` until the earliest known end, for
        work at the highest clock.

        :param now_seconds: simulated seconds at the end of the tick.
        """
        table = self.table
        run_seconds = now_seconds - table.start
        passed = np.where(table.is_open, table.done, run_seconds)
        ends = table.work < FOREVER
        progress = np.divide(passed, table.work, out=np.zeros(len(table)), where=ends)
        remaining = table.lasts - run_seconds
        remaining = np.where(table.is_open, np.minimum(remaining, table.work_left), remaining)
        arrays, present = self.shares().by_workload()
        arrays |= {
            "devices": table.pair_counts.astype(np.float64),
            "load_ratio": table.load / 100.0,
            "run_seconds": run_seconds,
            "progress_ratio": np.clip(progress, 0.0, 1.0),
            "remaining_seconds": np.maximum(remaining, 0.0),
        }
        has_end = {"progress_ratio": ends, "remaining_seconds": remaining < FOREVER / 2}
        return Level(len(table), arrays, {**present, **has_end})

    def over(self, end_seconds: float) -> Steps[dict[str, Verdict]]:
        """Verdicts by id on the workloads with a known end at or before ``end_seconds``, or with finished work."""
        table = self.table
        is_done = table.is_open & (table.done >= table.work - ROUNDING_SECONDS)
        over = np.flatnonzero(is_done | (table.start + table.lasts <= end_seconds + ROUNDING_SECONDS))
        ends = np.where(is_done, 0, table.ends)[over].tolist()
        ids = table.ids[over].tolist()
        verdicts = {}
        for span in spans(len(over)):
            yield
            for workload_id, end in zip(ids[span], ends[span], strict=True):
                verdicts[workload_id] = self.by_id[workload_id].verdict(*ENDS[end])
        return verdicts
