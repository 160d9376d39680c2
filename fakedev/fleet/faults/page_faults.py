"""What faults change on pages: series that are missing, wrong or frozen; and answers for the pages of whole nodes."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fakedev.base.steps import Steps
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.reindex import Reindex
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.state import Level, Mask, Positions, overlaid
from fakedev.fleet.faults.faults import Faults
from fakedev.fleet.faults.rules import Fault
from fakedev.fleet.parts.part_layout import Parts
from fakedev.fleet.spec.fault_kinds import Scope
from fakedev.fleet.spec.quantities import COUNTERS

_CREATED: Final = "created_seconds"
#: What pages derive from the time: a shown level has these of units with frozen series, NaN for the others, and none of
#: them if nothing is frozen.
FROZEN_TIMES: Final = ("uptime_seconds", "wall_seconds")


class ExporterFaults:
    """Changes the level of the units (devices and parts) that is shown.

    :param parts: the parts of devices: they show the faults of their device too.
    :ivar is_active: whether anything shown may differ, even after all faults are over.
    """

    def __init__(self, parts: Parts, epoch_seconds: float) -> None:
        self._parts = parts
        self._count = parts.unit_count
        self._epoch_seconds = epoch_seconds
        self._frozen: dict[str, _Frozen] = {}
        self._offsets: dict[str, Floats] = {}
        self._created: Floats | None = None
        self.is_active = False

    def move(self, moves: Reindex, parts: Parts, level: Level, faults: Faults) -> None:
        """Move to the new positions of devices and parts after a reload.

        :param level: the level after the reload.
        :param faults: at their new positions.
        """
        self._parts = parts
        self._count = level.count
        nothing = np.zeros(level.count)
        self._offsets = {
            name: moves.carried(offsets, nothing) for name, offsets in self._offsets.items() if name in level.arrays
        }
        if self._created is not None:
            self._created = moves.carried(self._created, np.full(level.count, np.nan))
        self._frozen = {
            fault_id: frozen.moved(moves, parts.with_parts(faults.by_id[fault_id].devices), level)
            for fault_id, frozen in self._frozen.items()
            if fault_id in faults.by_id
        }

    def shown(
        self, level: Level, before: Level, faults: Faults, start_seconds: float, start_wall_seconds: float
    ) -> Steps[Level]:
        """The level that exporters show; the same object without exporter faults.

        :param before: the level a tick ago.
        :param start_seconds: simulated time at the start of the tick.
        :param start_wall_seconds: wall time of the tick before.
        """
        for fault, what, devices in faults.changes:
            if fault.kind.name == "counter-reset":
                self._restart(before, fault, devices, start_seconds)
            elif fault.kind.name == "frozen" and what in ("began", "struck"):
                yield from self._freeze(before, fault, devices, start_seconds, start_wall_seconds)
        for fault_id in [fault_id for fault_id in self._frozen if fault_id not in faults.by_id]:
            del self._frozen[fault_id]
        active = faults.active(Scope.SERIES)
        self.is_active = bool(self._frozen or self._offsets)
        if not active and not self._offsets:
            return level
        return (yield from self._changed(level, active))

    def _freeze(
        self, before: Level, fault: Fault, devices: Positions, now_seconds: float, wall_seconds: float
    ) -> Steps[None]:
        """Freeze devices at the values of a tick ago; devices that are already frozen stay as they are."""
        frozen = self._frozen.get(fault.fault_id)
        if frozen is None:
            frozen = self._frozen[fault.fault_id] = _Frozen(self._parts.with_parts(fault.devices), {})
        units = self._parts.with_parts(devices)
        yield from frozen.freeze(before, units, _names(before, fault))
        if fault.metric is None:
            # Exporters derive these from their clock, which says the time of the last collection.
            frozen.hold("uptime_seconds", units, self._epoch_seconds + now_seconds - before.arrays[_CREATED][units])
            frozen.hold("wall_seconds", units, np.full(len(units), wall_seconds))

    def _restart(self, before: Level, fault: Fault, devices: Positions, start_seconds: float) -> None:
        """Restart counters at the start of this tick."""
        devices = self._parts.with_parts(devices)
        for name in _names(before, fault):
            if name in COUNTERS:
                offsets = self._offsets.setdefault(name, np.zeros(self._count))
                offsets[devices] = before.arrays[name][devices]
        if self._created is None:
            self._created = np.full(self._count, np.nan)
        self._created[devices] = self._epoch_seconds + start_seconds

    def _changed(self, level: Level, active: Sequence[Fault]) -> Steps[Level]:
        arrays, present = overlaid(level.arrays), overlaid(level.present)
        for name, offsets in self._offsets.items():
            # A reset board counts from 0 anyway.
            offsets[arrays[name] < offsets] = 0.0
            arrays[name] = arrays[name] - offsets
        if self._created is not None:
            arrays[_CREATED] = np.fmax(arrays[_CREATED], self._created)
        values: list[Fault] = []
        for fault in active:
            if fault.kind.name == "frozen":
                # It holds a value for each device, which the faults before it do not change.
                yield from self._write(level, values, arrays)
                values = []
                devices = self._parts.with_parts(fault.concerned)
                frozen = self._frozen[fault.fault_id]
                places = np.searchsorted(frozen.units, devices)
                for name in _names(level, fault):
                    if name in frozen.values:  # else no device had it when the series froze
                        changed = arrays[name].copy()
                        changed[devices] = frozen.values[name][places]
                        arrays[name] = changed
                        yield
                for name in FROZEN_TIMES if fault.metric is None else ():
                    times = arrays[name].copy() if name in arrays else np.full(self._count, np.nan)
                    times[devices] = frozen.values[name][places]
                    arrays[name] = times
            elif fault.kind.name in ("nan", "sentinel"):
                values.append(fault)
        yield from self._write(level, values, arrays)
        self._hide(level, [fault for fault in active if fault.kind.name == "absent"], present)
        return Level(level.count, arrays, present)

    def _write(self, level: Level, faults: Sequence[Fault], arrays: MutableMapping[str, Floats]) -> Steps[None]:
        """Write the values that faults give to all their devices; of several faults of a series the last one counts.

        The arrays are written once, however many faults there are.
        """
        if not faults:
            return
        shown = np.array([self._value(fault) for fault in faults])
        for name, last in self._last_of(level, faults):
            devices = np.flatnonzero(last >= 0)
            if len(devices):
                changed = arrays[name].copy()
                changed[devices] = shown[last[devices]]
                arrays[name] = changed
                yield

    def _hide(self, level: Level, faults: Sequence[Fault], present: MutableMapping[str, Mask]) -> None:
        """Hide the series of devices."""
        for name, last in self._last_of(level, faults):
            has = present.get(name)
            present[name] = (last < 0) if has is None else has & (last < 0)

    def _last_of(self, level: Level, faults: Sequence[Fault]) -> Iterator[tuple[str, Positions]]:
        """Each series that faults change, with the position of each device's last such fault, -1 for none."""
        none: Positions = np.full(self._count, -1, dtype=np.int64)
        every = none.copy()
        of_series: dict[str, Positions] = {}
        for place, fault in enumerate(faults):
            where = [every]
            if fault.metric is not None:
                where = [of_series.setdefault(name, none.copy()) for name in _names(level, fault)]
            for last in where:
                last[self._parts.with_parts(fault.concerned)] = place
        for name in _all_names(level) if (every >= 0).any() else of_series:
            yield name, np.maximum(every, of_series[name]) if name in of_series else every

    @staticmethod
    def _value(fault: Fault) -> float:
        if fault.kind.name == "sentinel":
            # The value is in the unit of the metric.
            return fault.values["value"] / (fault.metric.factor if fault.metric else 1.0)
        return np.nan


@dataclass
class _Frozen:
    """The values of the series that a fault froze.

    :ivar units: devices and parts, N.
    :ivar values: by quantity, shape (N,).
    """

    units: Positions
    values: dict[str, Floats]

    def freeze(self, before: Level, units: Positions, names: Sequence[str]) -> Steps[None]:
        """Freeze some of the units at their values in a level."""
        places = np.searchsorted(self.units, units)
        for name in names:
            if name not in self.values:
                self.values[name] = before.arrays[name][self.units]
            self.values[name][places] = before.arrays[name][units]
            yield

    def hold(self, name: str, units: Positions, values: Floats) -> None:
        """Hold values of some of the units that no level has."""
        if name not in self.values:
            self.values[name] = np.full(len(self.units), np.nan)
        self.values[name][np.searchsorted(self.units, units)] = values

    def moved(self, moves: Reindex, units: Positions, level: Level) -> _Frozen:
        """The values of the units after a reload; new ones have those of a level."""
        was = moves.old_of[units]
        places = np.minimum(np.searchsorted(self.units, was), len(self.units) - 1)
        values = dict.fromkeys(self.values.keys() & set(FROZEN_TIMES), np.full(len(units), np.nan))
        values |= {name: now[units] for name, now in level.arrays.items()}
        if len(self.units):
            is_known = (was >= 0) & (self.units[places] == was)
            for name in self.values.keys() & values.keys():
                values[name] = np.where(is_known, self.values[name][places], values[name])
        return _Frozen(units, values)


def _names(level: Level, fault: Fault) -> Sequence[str]:
    """The quantities that a fault changes."""
    if fault.kind.name not in ("absent", "nan", "sentinel", "frozen", "counter-reset"):
        return ()
    if fault.metric is not None:
        # In a shard maybe only boards elsewhere have it.
        return (fault.metric.quantity,) if fault.metric.quantity in level.arrays else ()
    return _all_names(level)


def _all_names(level: Level) -> list[str]:
    return [name for name in level.arrays if name != _CREATED]


@dataclass(frozen=True)
class PageFaults:
    """The faults of a page.

    :param is_closed: the connection is closed without an answer.
    :param late_seconds: delay of the answer.
    :param share: share of its bytes that is sent.
    :param status: HTTP status in place of the page; 0 for none.
    :param is_html: its Content-Type is that of HTML.
    """

    is_closed: bool = False
    late_seconds: float = 0.0
    share: float = 1.0
    status: int = 0
    is_html: bool = False

    def fails_scrape(self, timeout_seconds: float) -> bool:
        """Whether a scrape of the page fails, as a Prometheus sees it: it takes a whole page of metrics, in time."""
        is_broken = self.is_closed or self.status != 0 or self.is_html or self.share < 1
        return is_broken or self.late_seconds > timeout_seconds


class NodePageFaults:
    """The nodes whose pages have faults, kept from tick to tick.

    :ivar by_fault: each active fault with the names of its nodes.
    """

    def __init__(self, faults: Faults, roster: Roster) -> None:
        self._faults = faults
        self._roster = roster
        self.by_fault: list[tuple[Fault, frozenset[str]]] = []

    def update(self) -> None:
        """Find the nodes again, after faults have moved."""
        self.by_fault = []
        for fault in self._faults.active(Scope.PAGE, Scope.NODE):
            positions = set(self._roster.node_positions(fault.concerned).tolist())
            self.by_fault.append((fault, frozenset(self._roster.nodes[position].name for position in positions)))

    def of(self, names: frozenset[str]) -> PageFaults | None:
        """The faults of a page of some nodes: those that all of them have; None without faults."""
        found = [fault for fault, nodes in self.by_fault if names <= nodes]
        if not found:
            return None
        kinds = {fault.kind.name for fault in found}

        def values(kind: str, name: str) -> list[float]:
            return [fault.values[name] for fault in found if fault.kind.name == kind]

        return PageFaults(
            is_closed="node-down" in kinds,
            late_seconds=max(values("slow-page", "seconds"), default=0.0),
            share=min(values("cut-page", "share"), default=1.0),
            status=int(max(values("error-page", "status"), default=0.0)),
            is_html="wrong-type" in kinds,
        )

    def hidden(self) -> frozenset[str]:
        """The nodes that service discovery leaves out now."""
        return frozenset().union(*(nodes for fault, nodes in self.by_fault if fault.values.get("leave-sd")))
