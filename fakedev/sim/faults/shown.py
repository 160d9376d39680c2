"""What is shown of the devices where exporters are at fault: series that are missing, wrong, or stand still."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fakedev.sim.entities.carry_over import Reindex
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Level, overlaid
from fakedev.sim.faults.fault import Fault
from fakedev.sim.faults.faults import Faults
from fakedev.sim.parts.layout import Parts
from fakedev.sim.workloads.schedule import Positions
from fakedev.spec.fault_kinds import Scope
from fakedev.spec.quantities import COUNTERS

_CREATED: Final = "created_seconds"


class ExporterFaults:
    """What faults make of the level of the units (devices, and parts of such) before it is shown.

    :param parts: which devices have parts: what is shown of a device is shown of its parts too.
    """

    def __init__(self, parts: Parts, epoch_seconds: float) -> None:
        self._parts = parts
        self._count = parts.unit_count
        self._epoch_seconds = epoch_seconds
        self._frozen: dict[str, dict[str, Floats]] = {}
        self._offsets: dict[str, Floats] = {}
        self._created: Floats | None = None

    def move(self, moves: Reindex, parts: Parts, level: Level) -> None:
        """The devices and parts have new places.

        :param level: what they have shown last, there.
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
            fault_id: {
                name: moves.carried(frozen[name], now) if name in frozen else now for name, now in level.arrays.items()
            }
            for fault_id, frozen in self._frozen.items()
        }

    def shown(self, level: Level, before: Level, faults: Faults, start_seconds: float) -> Level:
        """The level as exporters show it; the level itself, when all of them are well.

        :param before: the level a tick ago.
        :param start_seconds: simulated time at the beginning of the tick.
        """
        for fault, what, devices in faults.changes:
            if fault.kind.name == "counter-reset":
                self._restart(before, fault, devices, start_seconds)
            elif fault.kind.name == "frozen" and what in ("began", "struck"):
                self._freeze(before, fault, devices)
        for fault_id in [each for each in self._frozen if each not in faults.by_id]:
            del self._frozen[fault_id]
        active = faults.active(Scope.SERIES)
        if not active and not self._offsets:
            return level
        return self._disguised(level, active)

    def _freeze(self, before: Level, fault: Fault, devices: Positions) -> None:
        """Devices show from here on what they showed a tick ago; those that did not freeze now stay as they are."""
        devices = self._parts.with_parts(devices)
        frozen = self._frozen.setdefault(fault.fault_id, {})
        for name in _names(before, fault):
            if name not in frozen:
                frozen[name] = before.arrays[name].copy()
            frozen[name][devices] = before.arrays[name][devices]

    def _restart(self, before: Level, fault: Fault, devices: Positions, start_seconds: float) -> None:
        """Counters begin again, at the beginning of this tick."""
        devices = self._parts.with_parts(devices)
        for name in _names(before, fault):
            if name in COUNTERS:
                offsets = self._offsets.setdefault(name, np.zeros(self._count))
                offsets[devices] = before.arrays[name][devices]
        if self._created is None:
            self._created = np.full(self._count, np.nan)
        self._created[devices] = self._epoch_seconds + start_seconds

    def _disguised(self, level: Level, active: Sequence[Fault]) -> Level:
        arrays, present = overlaid(level.arrays), overlaid(level.present)
        for name, offsets in self._offsets.items():
            # A board that was reset counts from 0 by itself.
            offsets[arrays[name] < offsets] = 0.0
            arrays[name] = arrays[name] - offsets
        if self._created is not None:
            arrays[_CREATED] = np.fmax(arrays[_CREATED], self._created)
        for fault in active:
            devices = self._parts.with_parts(fault.concerned)
            for name in _names(level, fault):
                if fault.kind.name == "frozen" and name not in self._frozen[fault.fault_id]:
                    continue  # nothing had it when the series froze
                if fault.kind.name == "absent":
                    has = present.get(name)
                    present[name] = np.ones(self._count, np.bool_) if has is None else has.copy()
                    present[name][devices] = False
                    continue
                changed = arrays[name].copy()
                changed[devices] = self._value(fault, name, devices)
                arrays[name] = changed
        return Level(level.count, arrays, present)

    def _value(self, fault: Fault, name: str, devices: Positions) -> Floats | float:
        if fault.kind.name == "frozen":
            return self._frozen[fault.fault_id][name][devices]
        if fault.kind.name == "sentinel":
            # As shown: in the unit of the metric that was named.
            return fault.values["value"] / (fault.metric.factor if fault.metric else 1.0)
        return np.nan


def _names(level: Level, fault: Fault) -> Sequence[str]:
    """The quantities that a fault concerns."""
    if fault.kind.name not in ("absent", "nan", "sentinel", "frozen", "counter-reset"):
        return ()
    if fault.metric is not None:
        # Of a shard it may be that only boards elsewhere have it.
        return (fault.metric.quantity,) if fault.metric.quantity in level.arrays else ()
    return [name for name in level.arrays if name != _CREATED]
