"""All tallies of a fleet: counted in each tick from reports of its devices, and shown as further quantities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from fakedev.sim.boards.conditions import Conditions
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.reindex import FleetReindex
from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.state import Level, Mask, Positions, overlaid
from fakedev.sim.faults.rules import Fault
from fakedev.sim.faults.tick import FaultTick, Report
from fakedev.sim.levels import DEVICE, REPEATED, Levels
from fakedev.sim.tallies.counts import ClockEvents, Xids
from fakedev.sim.tallies.health_checks import Health, Peers
from fakedev.sim.workloads.running import Workloads
from fakedev.spec.tallies import (
    CLOCK_SAMPLES,
    CLOCK_STARTS,
    HEALTH,
    OF_PROCESSES,
    PEERS,
    XID_TIMES,
    XIDS,
    Tally,
    is_sampled,
)

#: The levels of error codes that devices have reported, and of pairs of devices.
XID_LEVEL: Final = "xid"
PEER_LEVEL: Final = "peer"
_REASONS: Final = "throttle_reasons"
_CORRECTABLE: Final = ("memory_errors_correctable", "cache_errors_correctable")
_NO_DEVICES: Final = np.zeros(0, dtype=np.int64)


class Tallies:
    """The tallies that identities show.

    :param had: devices with each quantity, including lost ones; a missing name means all.
    :ivar peers: the pairs of devices; None if no identity shows them.
    :ivar count_work: whether an identity shows what processes have done: :meth:`note_work` is needed.
    """

    def __init__(self, tallies: Sequence[Tally], roster: Roster, had: Mapping[str, Mask]) -> None:
        self._use(tallies, roster, had)
        self._xids = Xids(self._windows(0.0))
        self._clocks: dict[float, ClockEvents] = {}
        self._health = Health(self._count)
        self._make_clocks()

    def _use(self, tallies: Sequence[Tally], roster: Roster, had: Mapping[str, Mask]) -> None:
        self._count = roster.device_count
        self.peers = Peers(roster) if any(each.base == PEERS for each in tallies) else None
        self._tallies = tuple(each for each in tallies if each.base not in (PEERS, *OF_PROCESSES))
        self.count_work = any(each.base in OF_PROCESSES for each in tallies)
        self._owners_of = roster.parts.owners_of
        self.are_shown = bool(tallies)
        everyone = np.ones(self._count, dtype=np.bool_)
        self._reports, self._has_reasons = had.get("xid", everyone), had.get(_REASONS, ~everyone)

    def _windows(self, every_seconds: float) -> list[float]:
        """The windows of tallies sampled at an interval; 0 for those of error codes."""
        within = {each.within_seconds for each in self._tallies if each.every_seconds == every_seconds}
        return sorted(within - {0.0})

    def _make_clocks(self) -> None:
        every_used = {each.every_seconds for each in self._tallies if is_sampled(each.base)}
        self._clocks = {
            every: self._clocks.get(every) or ClockEvents(self._count, every, self._windows(every))
            for every in every_used
        }

    def note(
        self, reports: Sequence[Report], level: Level, before: Level | None, faults: FaultTick | None,
        conditions: Conditions, now: float, wall_seconds: float,
    ) -> Positions:  # fmt: skip
        """Count the reports of a tick at its end.

        :param reports: the error codes of the tick, also of boards whose drivers report none.
        :param level: the true level of the devices.
        :param before: the same a tick ago.
        :param wall_seconds: the wall time of the tick, in seconds since 1970.
        :returns: devices with a new entity.
        """
        if not self._tallies:
            return _NO_DEVICES
        reasons = level.arrays.get(_REASONS)
        if reasons is not None:
            for clocks in self._clocks.values():
                clocks.note(reasons, level.mask(_REASONS), now)
        of_devices = None if faults is None else faults.of_devices()
        self._health.note(level, of_devices, conditions.fabric_share, now)
        # Drivers of other vendors report no such code.
        seen = [Report(devices[self._reports[devices]], code) for devices, code in reports]
        gone = before.arrays["lost"] > 0 if before is not None and "lost" in before.arrays else None
        return self._xids.note(seen, gone, now, wall_seconds)

    def note_work(self, workloads: Workloads, level: Level, before: Level, seconds: float) -> None:
        """Count what the workloads of a tick have done, at its end.

        :param level, before: the true level of the devices, and that of a tick ago.
        """
        table = workloads.table
        devices = self._owners_of(table.device)

        def of_pairs(name: str, absent: float, arrays: Mapping[str, Floats] = level.arrays) -> Floats:
            return arrays[name][devices] if name in arrays else np.full(len(devices), absent)

        hangs, is_lost = of_pairs("hung", 0.0) > 0, of_pairs("lost", 0.0) > 0
        busy = workloads.shares().of("usage_ratio") * of_pairs("work_clock_ratio", 1.0)
        table.worked_seconds = table.worked_seconds + np.where(hangs | is_lost, 0.0, busy * seconds)
        table.stalled_seconds = table.stalled_seconds + np.where(hangs & ~is_lost, seconds, 0.0)
        for name in _CORRECTABLE:
            more = of_pairs(name, 0.0) - of_pairs(name, 0.0, before.arrays)
            # After a reset the counts of a device start again.
            table.corrected_errors = table.corrected_errors + np.maximum(more, 0.0)

    def shown(self, levels: Levels, exporter_faults: Sequence[Fault] = ()) -> Levels:
        """Levels with the tallies, also those of lost devices."""
        device = levels[DEVICE]
        if self.peers is not None:
            levels = {**levels, PEER_LEVEL: self.peers.level(device, self._reports)}
        if not self._tallies:
            return levels
        arrays, present = overlaid(device.arrays), overlaid(device.present)
        absent, unknown = self._concerned(exporter_faults, "absent"), self._concerned(exporter_faults, "nan")
        findings = self._health.findings()
        for tally in self._tallies:
            if tally.base == XIDS:
                counts = self._xids.counts(tally.within_seconds)
                values, has = np.bincount(self._xids.devices, counts, self._count).astype(np.float64), self._reports
            elif tally.base == XID_TIMES:
                values = np.zeros(self._count)
                np.maximum.at(values, self._xids.devices, self._xids.last_times())
                has = self._reports & (values > 0)
            elif tally.base in HEALTH:
                values, has = findings[tally.base], self._reports
            else:
                clocks, has = self._clocks[tally.every_seconds], self._has_reasons
                if tally.base in CLOCK_STARTS:
                    values = clocks.starts(CLOCK_STARTS[tally.base])
                else:
                    values = clocks.samples(CLOCK_SAMPLES[tally.base], tally.within_seconds)
            arrays[tally.name], present[tally.name] = np.where(unknown, np.nan, values), has & ~absent
        level = Level(device.count, arrays, present)
        return {**levels, DEVICE: level, REPEATED: level, **self._level_of_xids(level)}

    def _concerned(self, faults: Sequence[Fault], kind: str) -> Mask:
        """Devices all of whose series have a kind of exporter fault: shape (D,)."""
        found = np.zeros(self._count, dtype=np.bool_)
        for fault in faults:
            if fault.kind.name == kind and fault.metric is None:
                found[fault.concerned[fault.concerned < self._count]] = True
        return found

    def _level_of_xids(self, device: Level) -> Levels:
        """The level of reported codes; codes are hidden with the tallies of their device."""
        names = [each for each in self._tallies if each.base in (XIDS, XID_TIMES)]
        if not names:
            return {}
        owners = self._xids.devices
        arrays: dict[str, Floats] = {}
        for each in names:
            of_device = device.arrays[each.name][owners]
            own = self._xids.last_times() if each.base == XID_TIMES else self._xids.counts(each.within_seconds)
            arrays[each.name] = np.where(np.isnan(of_device), of_device, own)
        present = {each.name: device.present[each.name][owners] for each in names}
        return {XID_LEVEL: Level(len(owners), arrays, present)}

    def xids_of(self, device: int) -> list[tuple[int, int]]:
        """The reported codes of a device, each with its position in the level."""
        return self._xids.of_device(device)

    def move(self, moves: FleetReindex, tallies: Sequence[Tally], roster: Roster, had: Mapping[str, Mask]) -> None:
        """Move to the new positions of devices, and show other tallies, after a reload."""
        self._use(tallies, roster, had)
        self._xids.move(moves, self._windows(0.0))
        self._health.move(moves)
        for every, clocks in self._clocks.items():
            clocks.move(moves, self._windows(every))
        self._make_clocks()
