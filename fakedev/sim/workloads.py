"""The workloads of a fleet: who runs where, how much load that makes, and when each is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.demand import Demand
from fakedev.sim.randomness import Floats, Keys, entity_key, normal
from fakedev.sim.schedule import Positions, Profiles
from fakedev.sim.spec import FOREVER, WorkloadSpec
from fakedev.sim.value_functions import highest

#: Seconds over which fluctuation forgets: its lag-1 autocorrelation at 1 s ticks is exp(-1/10).
CORRELATION_SECONDS: Final = 10.0
#: Standard deviation of the noise in the unit of the fluctuation, before it is reflected at +/- 1.
_NOISE_DEVIATION: Final = 0.5
#: Sums of decimal fractions miss a tick's boundary by less than this.
_ROUNDING_SECONDS: Final = 1e-6


@dataclass(frozen=True)
class Verdict:
    """A workload is over: what its peer is told."""

    workload_id: str
    name: str
    code: int
    text: str


@dataclass
class Workload:
    """A workload that was accepted.

    :ivar devices: positions of its devices.
    :ivar start_seconds: simulated time of its start; None until the next tick begins.
    """

    workload_id: str
    spec: WorkloadSpec
    devices: Positions
    start_seconds: float | None = None

    @property
    def profile_seconds(self) -> float:
        """Seconds of the profile with its repeats: of time, or of work."""
        period = sum(activity.seconds for activity in self.spec.activities)
        return min(period * self.spec.repeat, FOREVER) if self.spec.repeat else FOREVER

    @property
    def end_seconds(self) -> tuple[float, int, str]:
        """(seconds after the start, code, text) of the end that is known beforehand: the earliest.

        That of work is not known: it depends on the clocks.
        """
        spec = self.spec
        ends = [(FOREVER if spec.is_work else self.profile_seconds, 0, "OK")]
        if spec.ttl_seconds:
            ends.append((spec.ttl_seconds, 0, "time to live is over"))
        if spec.run_time_limit_seconds:
            ends.append((spec.run_time_limit_seconds, 1, "Limit run-time reached, terminated"))
        return min(ends)


@dataclass
class _Table:
    """The running workloads as arrays: W workloads, P pairs of a workload and one of its devices.

    :ivar start, lasts: simulated seconds of the start, and from there to the end that is known, shape (W,).
    :ivar is_work: whose profile is work, shape (W,).
    :ivar work, done: seconds of work in all and done so far, shape (W,).
    """

    ids: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    profiles: Profiles = field(default_factory=lambda: Profiles.of([]))
    start: Floats = field(default_factory=lambda: np.zeros(0))
    lasts: Floats = field(default_factory=lambda: np.zeros(0))
    is_work: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    work: Floats = field(default_factory=lambda: np.zeros(0))
    done: Floats = field(default_factory=lambda: np.zeros(0))
    pair_counts: Positions = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    pair_workload: Positions = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    pair_device: Positions = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    pair_key: Keys = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    noise: Floats = field(default_factory=lambda: np.zeros(0))
    load: Floats = field(default_factory=lambda: np.zeros(0))
    rows: tuple[list[str], Positions] | None = None

    def kind_rows(self) -> tuple[list[str], Positions]:
        """The kinds of work in order of their names, and each pair's place among them, shape (P,)."""
        if self.rows is None:
            kinds = sorted(set(self.kinds)) or ["compute"]
            places = {kind: place for place, kind in enumerate(kinds)}
            own = np.array([places[kind] for kind in self.kinds], dtype=np.int64)
            self.rows = kinds, own[self.pair_workload]
        return self.rows


class Workloads:
    """All workloads of a fleet, by id; those that run also as arrays.

    :param device_keys: keys of randomness of the devices, shape (devices,).
    :ivar changes: how often workloads began or ended.
    """

    def __init__(self, seed: int, device_keys: Keys) -> None:
        self._seed = seed
        self._device_keys = device_keys
        self._table = _Table()
        self.by_id: dict[str, Workload] = {}
        self._by_name: dict[str, dict[str, None]] = {}
        self._limited: dict[str, Workload] = {}
        self._held: Floats | None = None
        self.changes = 0

    def accept(self, workload: Workload) -> None:
        """Take a workload in; it runs from the next :meth:`change` that names it."""
        self.by_id[workload.workload_id] = workload
        self._by_name.setdefault(workload.spec.name, {})[workload.workload_id] = None

    def find(self, word: str) -> list[str]:
        """Ids that a word names: one id, or all workloads of that name, oldest first."""
        return [word] if word in self.by_id else list(self._by_name.get(word, {}))

    def forget(self, workload_id: str) -> None:
        """Let a workload go that is not in the arrays."""
        gone = self.by_id.pop(workload_id)
        self._limited.pop(workload_id, None)
        names = self._by_name[gone.spec.name]
        del names[workload_id]
        if not names:
            del self._by_name[gone.spec.name]

    def change(self, started: list[Workload], ended: set[str], tick: int, now_seconds: float) -> None:
        """Take running workloads out of the arrays and put others in, from ``now_seconds`` on."""
        self.changes += 1
        self._held = None
        if ended:
            self._remove(ended)
            for workload_id in ended:
                self.forget(workload_id)
        if started:
            self._add(started, tick, now_seconds)
            self._limited.update({each.workload_id: each for each in started if each.spec.limits})

    def _remove(self, ended: set[str]) -> None:
        table = self._table
        keep = np.array([workload_id not in ended for workload_id in table.ids], dtype=np.bool_)
        pairs = np.repeat(keep, table.pair_counts)
        counts = table.pair_counts[keep]
        self._table = _Table(
            ids=[workload_id for workload_id in table.ids if workload_id not in ended],
            kinds=[kind for kind, stays in zip(table.kinds, keep.tolist(), strict=True) if stays],
            profiles=table.profiles.kept(keep),
            start=table.start[keep],
            lasts=table.lasts[keep],
            is_work=table.is_work[keep],
            work=table.work[keep],
            done=table.done[keep],
            pair_counts=counts,
            pair_workload=np.repeat(np.arange(len(counts)), counts),
            pair_device=table.pair_device[pairs],
            pair_key=table.pair_key[pairs],
            noise=table.noise[pairs],
            load=table.load[keep],
        )

    def _add(self, started: list[Workload], tick: int, now_seconds: float) -> None:
        table = self._table
        for workload in started:
            workload.start_seconds = now_seconds
        counts = np.array([len(workload.devices) for workload in started], dtype=np.int64)
        devices = np.concatenate([workload.devices for workload in started])
        own_keys = np.array([entity_key("workload", w.workload_id) for w in started], dtype=np.uint64)
        keys = np.repeat(own_keys, counts) ^ self._device_keys[devices]
        first_noise = _reflected(normal(self._seed, keys, "first workload noise", tick) * _NOISE_DEVIATION)
        new = Profiles.of([workload.spec.activities for workload in started])
        new_lasts = np.array([workload.end_seconds[0] for workload in started])
        all_counts = np.concatenate((table.pair_counts, counts))
        self._table = _Table(
            ids=table.ids + [workload.workload_id for workload in started],
            kinds=table.kinds + [workload.spec.kind for workload in started],
            profiles=table.profiles.joined(new),
            start=np.concatenate((table.start, np.full(len(started), now_seconds))),
            lasts=np.concatenate((table.lasts, new_lasts)),
            is_work=np.concatenate((table.is_work, [workload.spec.is_work for workload in started])),
            work=np.concatenate((table.work, [workload.profile_seconds for workload in started])),
            done=np.concatenate((table.done, np.zeros(len(started)))),
            pair_counts=all_counts,
            pair_workload=np.repeat(np.arange(len(all_counts)), all_counts),
            pair_device=np.concatenate((table.pair_device, devices)),
            pair_key=np.concatenate((table.pair_key, keys)),
            noise=np.concatenate((table.noise, first_noise)),
            load=np.concatenate((table.load, np.zeros(len(started)))),
        )

    def demand(
        self, tick: int, start_seconds: float, end_seconds: float, pace: Mapping[str, Floats] = MappingProxyType({})
    ) -> Demand:
        """What the workloads ask of each device over one tick.

        Loads of several workloads add up; where that is more than 1 each gets its part of 1. The noise
        of every pair takes a step.

        :param pace: how fast each kind of work gets on at each device, shape (devices,); at full speed when missing.
        """
        table = self._table
        seconds = end_seconds - start_seconds
        begin = np.minimum(start_seconds - table.start, table.lasts)
        end = np.minimum(end_seconds - table.start, table.lasts)
        stretch = np.full(len(table.ids), seconds)
        if table.is_work.any():
            # Work that ends in the middle of a tick, or at the deadline of its workload, has part of its load there.
            stretch = np.where(table.is_work, self._rates(pace), 1.0) * seconds
            part = np.where(table.is_work, (end - begin) / seconds, 1.0)
            done = np.minimum(table.done + stretch * part, table.work)
            begin, end = np.where(table.is_work, table.done, begin), np.where(table.is_work, done, end)
            table.done = np.where(table.is_work, done, 0.0)
        load, fluctuation = table.profiles.means(begin, end, stretch)
        table.noise = self._stepped_noise(tick, seconds)
        share = load[table.pair_workload] + fluctuation[table.pair_workload] * table.noise
        table.load = load
        return Demand(self._by_kind(share), self._held_share())

    def _held_share(self) -> Floats:
        """What the workloads hold of each device as long as they run, however busy they are: shape (devices,).

        A share of 1: the highest loads of their profiles, added up and held to 1. Memory goes by it.
        """
        if self._held is None:
            table = self._table
            peaks = np.array([max(highest(a.value) for a in self.by_id[name].spec.activities) for name in table.ids])
            weights = peaks[table.pair_workload] if len(peaks) else peaks
            total = np.bincount(table.pair_device, weights=weights, minlength=len(self._device_keys))
            self._held = np.minimum(total / 100.0, 1.0)
        return self._held

    def _rates(self, pace: Mapping[str, Floats]) -> Floats:
        """How fast each workload gets on: as its slowest device, shape (W,)."""
        table = self._table
        kinds, rows = table.kind_rows()
        paces = np.array([pace.get(kind, np.ones(len(self._device_keys))) for kind in kinds])
        firsts = np.cumsum(table.pair_counts) - table.pair_counts
        return np.minimum.reduceat(paces[rows, table.pair_device], firsts)

    def _by_kind(self, share: Floats) -> dict[str, Floats]:
        table, count = self._table, len(self._device_keys)
        kinds, rows = table.kind_rows()
        sums = np.bincount(rows * count + table.pair_device, weights=share, minlength=len(kinds) * count)
        loads = np.maximum(sums.reshape(len(kinds), count) / 100.0, 0.0)
        # Row after row, so that kinds that others use change nobody's last digit.
        total = np.zeros(count)
        for row in loads:
            total = total + row
        return dict(zip(kinds, loads / np.maximum(total, 1.0), strict=True))

    def running(self) -> list[Workload]:
        """The workloads in the arrays, in order of their start."""
        return [self.by_id[workload_id] for workload_id in self._table.ids]

    def limited(self) -> list[Workload]:
        """Running workloads that have limits."""
        return list(self._limited.values())

    def load_percents(self) -> dict[str, float]:
        """Each running workload's mean load in the last tick, fluctuation left out, by id."""
        return dict(zip(self._table.ids, self._table.load.tolist(), strict=True))

    def work_done(self) -> dict[str, float]:
        """Seconds of work done, by id, of the running workloads whose profile is work."""
        table = self._table
        done = zip(table.ids, table.done.tolist(), table.is_work.tolist(), strict=True)
        return {workload_id: seconds for workload_id, seconds, is_work in done if is_work}

    def _stepped_noise(self, tick: int, seconds: float) -> Floats:
        """Mean-reverting noise (Ornstein-Uhlenbeck, exact for the step), reflected into +/- 1."""
        table = self._table
        memory = float(np.exp(-seconds / CORRELATION_SECONDS))
        push = _NOISE_DEVIATION * (1 - memory**2) ** 0.5
        return _reflected(memory * table.noise + push * normal(self._seed, table.pair_key, "workload noise", tick))

    def over(self, end_seconds: float) -> list[Verdict]:
        """Verdicts on the workloads whose known end is at or before ``end_seconds``, or whose work is done."""
        table = self._table
        is_done = table.is_work & (table.done >= table.work - _ROUNDING_SECONDS)
        over = np.flatnonzero(is_done | (table.start + table.lasts <= end_seconds + _ROUNDING_SECONDS))
        verdicts = []
        for position in over.tolist():
            workload = self.by_id[table.ids[position]]
            code, text = (0, "OK") if is_done[position] else workload.end_seconds[1:]
            verdicts.append(Verdict(workload.workload_id, workload.spec.name, code, text))
        return verdicts


def _reflected(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values folded back into -1 to 1 at both ends, as often as it takes."""
    folded = np.mod(values + 1.0, 4.0)
    return np.where(folded > 2.0, 4.0 - folded, folded) - 1.0
