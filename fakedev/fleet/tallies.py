"""Tallies that exporters count: health checks, error codes (XIDs) and clock events, over windows or since the start.

All tallies are counted in each tick from reports of the devices, and shown as further quantities.

Health checks are DCGM's, beyond the checks of a board's state: its health watches, and connected pairs of boards.
Limits of the watches: more than 8 PCIe replays in a minute; any link error in a minute, or a link that is down; any
uncontained memory error; any throttling by heat or power limit in a minute.

A pair of device and code is an entity from its first report on. Its position never changes, so states of earlier
ticks stay valid. Clock events are sampled as an exporter samples them: at multiples of an interval.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.fleet.boards.conditions import Conditions
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.reindex import FleetReindex
from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.entities.state import Level, Mask, Positions, overlaid
from fakedev.fleet.faults.per_tick import FaultTick, Report
from fakedev.fleet.faults.rules import Fault
from fakedev.fleet.levels import DEVICE, REPEATED, Levels
from fakedev.fleet.spec.quantities import (
    CLOCK_EVENTS,
    CLOCK_SAMPLES,
    CLOCK_STARTS,
    HEALTH,
    PEERS,
    PROCESS_QUANTITIES,
    XID_TIMES,
    XIDS,
    Tally,
    is_sampled,
)
from fakedev.fleet.workloads.running import Workloads

_MINUTE_SECONDS: Final = 60.0
#: Counters are sampled at most once per second.
_SECOND: Final = 1.0
_MAX_REPLAYS: Final = 8
#: Watched counters, the name of the finding, and the lowest increase in a minute that is a finding.
_FINDINGS: Final = (
    ("pcie_replays", "health_pcie_replay_rate", _MAX_REPLAYS + 1),
    ("link_errors", "health_link_errors", 1),
    ("throttled_thermal_seconds", "health_thermal_violation", 1e-9),
    ("throttled_power_seconds", "health_power_violation", 1e-9),
)
#: NVIDIA's code of an uncontained memory error.
_UNCONTAINED: Final = 95
#: DCGM reports pairs of the first boards of a node only.
_MAX_BOARDS: Final = 32


class Health:
    """The findings on D devices."""

    def __init__(self, count: int) -> None:
        self._uncontained = np.zeros(count, dtype=np.bool_)
        self._past: deque[tuple[float, Mapping[str, Floats]]] = deque()
        self._increase: dict[str, Floats] = {finding: np.zeros(count) for _, finding, _ in _FINDINGS}
        self._down: Mask = np.zeros(count, dtype=np.bool_)

    def note(self, level: Level, faults: FaultTick | None, fabric_share: Floats | None, now: float) -> None:
        """Check at the end of a tick.

        :param fabric_share: remaining share of the capacity of links to other boards; None for all.
        """
        if faults is not None:
            reset = faults.resets()
            if reset is not None:
                self._uncontained = self._uncontained & ~reset
            for devices, code, _ in faults.reports:
                if code == _UNCONTAINED:
                    self._uncontained = self._uncontained.copy()
                    self._uncontained[devices] = True
        self._down = self._down & False if fabric_share is None else fabric_share < 1.0
        if "lost" in level.arrays:
            # A lost board reports nothing.
            self._down = self._down & (level.arrays["lost"] <= 0)
        if not self._past or now - self._past[-1][0] >= _SECOND:
            watched = {name: level.arrays[name] for name, _, _ in _FINDINGS if name in level.arrays}
            self._past.append((now, watched))
        while self._past[0][0] < now - _MINUTE_SECONDS:
            self._past.popleft()
        first = self._past[0][1]
        for counter, finding, _ in _FINDINGS:
            if counter in level.arrays and counter in first:
                # A reset board counts from 0.
                self._increase[finding] = np.maximum(level.arrays[counter] - first[counter], 0.0)

    def findings(self) -> dict[str, Floats]:
        """Findings by name: 1 on devices with the finding, else 0: shape (D,)."""
        found: dict[str, Sequence[bool] | Mask] = {
            finding: self._increase[finding] >= least for _, finding, least in _FINDINGS
        }
        found["health_link_down"] = self._down
        found["health_uncontained"] = self._uncontained
        return {name: np.asarray(is_there, dtype=np.float64) for name, is_there in found.items()}

    def move(self, moves: FleetReindex) -> None:
        """Move to the new positions of devices; the watch of counters starts again."""
        nothing = np.zeros(len(moves.old_of), dtype=np.bool_)
        self._uncontained = moves.carried(self._uncontained, nothing)
        self._down = moves.carried(self._down, nothing)
        self._past.clear()
        self._increase = {name: np.zeros(len(moves.old_of)) for name in self._increase}


class Peers:
    """The P pairs of boards of a fleet, in both directions, ordered by node and board."""

    def __init__(self, roster: Roster) -> None:
        self._first_pair: dict[RosterNode, int] = {}
        boards, peers = [], []
        count = 0
        for node in roster.nodes:
            self._first_pair[node] = count
            for board, peer in _pairs(node):
                boards.append(node.first + board)
                peers.append(node.first + peer)
                count += 1
        self._boards: Positions = np.array(boards, dtype=np.int64)
        self._peers: Positions = np.array(peers, dtype=np.int64)

    def of_node(self, node: RosterNode) -> Iterator[tuple[int, int, int]]:
        """The positions of a node's pairs, with the index of each board and its peer."""
        for place, (board, peer) in enumerate(_pairs(node), self._first_pair[node]):
            yield place, board, peer

    def level(self, device: Level, reports: Mask) -> Level:
        """The level of the pairs.

        :param device: the level of the devices.
        :param reports: devices whose vendor reports pairs, shape (D,).
        """
        links = device.arrays.get("links_up", np.zeros(device.count))
        is_up = (links > 0) & device.mask("links_up")
        reached = is_up[self._boards] & is_up[self._peers]
        return Level(len(reached), {PEERS: reached.astype(np.float64)}, {PEERS: reports[self._boards]})


def _pairs(node: RosterNode) -> Iterator[tuple[int, int]]:
    count = min(len(node.devices), _MAX_BOARDS)
    return ((board, peer) for board in range(count) for peer in range(count) if board != peer)


Bits = NDArray[np.uint16]
Item = TypeVar("Item", bound=NDArray[Any])
_NOTHING: Final = np.zeros(0)
_SHIFTS: Final = np.arange(len(CLOCK_EVENTS), dtype=np.uint16)[:, None]


class Window(Generic[Item]):
    """Counts over the last seconds.

    :param add: new counts: 1 for an added item, -1 for a removed one.
    """

    def __init__(self, seconds: float, counts: Floats, add: Callable[[Floats, Item, int], Floats]) -> None:
        self._seconds = seconds
        self._add = add
        self._items: deque[tuple[float, Item]] = deque()
        self.counts = counts

    def note(self, now: float, item: Item) -> None:
        """Count an item now."""
        self._items.append((now, item))
        self.counts = self._add(self.counts, item, 1)

    def expire(self, now: float) -> None:
        """Remove items from before the window."""
        while self._items and self._items[0][0] <= now - self._seconds:
            self.counts = self._add(self.counts, self._items.popleft()[1], -1)

    def move(self, moved: Callable[[Item], Item], counts: Floats) -> None:
        """Use the new positions of what is counted; the counts are there already."""
        self._items = deque((when, moved(item)) for when, item in self._items)
        self.counts = counts


class Xids:
    """The reported codes: E pairs of device and code.

    :param windows: lengths in seconds over which they are counted, in addition to the counts since the start.
    :ivar devices: the device of each pair, shape (E,).
    :ivar codes: the code of each pair.
    """

    def __init__(self, windows: Sequence[float]) -> None:
        self.devices: Positions = np.zeros(0, dtype=np.int64)
        self.codes: list[int] = []
        self._places: dict[tuple[int, int], int] = {}
        self._of_device: dict[int, list[int]] = {}
        self._total: Floats = _NOTHING
        self._last: Floats = _NOTHING
        self._windows = {seconds: self._window(seconds) for seconds in windows}

    def note(self, reports: Sequence[Report], lost: Mask | None, now: float, wall_seconds: float) -> Positions:
        """Count the reports of a tick at its end.

        :param lost: devices that were lost before: they report nothing.
        :param wall_seconds: the wall time of the tick, in seconds since 1970.
        :returns: the device of each new pair.
        """
        fresh: list[int] = []
        for window in self._windows.values():
            window.expire(now)
        for devices, code, _ in reports:
            reporting = devices if lost is None else devices[~lost[devices]]
            entities = np.array([self._place(device, code, fresh) for device in reporting.tolist()], dtype=np.int64)
            self._total = self._counted(self._total, entities)
            self._last = self._longer(self._last).copy()
            self._last[entities] = wall_seconds
            for window in self._windows.values():
                window.note(now, entities)
        if fresh:
            self.devices = np.concatenate([self.devices, np.array(fresh, dtype=np.int64)])
        return np.array(fresh, dtype=np.int64)

    def _place(self, device: int, code: int, fresh: list[int]) -> int:
        if (device, code) not in self._places:
            self._places[device, code] = len(self.codes)
            self._of_device.setdefault(device, []).append(len(self.codes))
            self.codes.append(code)
            fresh.append(device)
        return self._places[device, code]

    def of_device(self, device: int) -> list[tuple[int, int]]:
        """The codes of a device, ascending, each with its position."""
        places = self._of_device.get(device, ())
        return [(place, self.codes[place]) for place in sorted(places, key=self.codes.__getitem__)]

    def counts(self, window_seconds: float) -> Floats:
        """The count of each pair in a window, 0 for since the start: shape (E,)."""
        counts = self._windows[window_seconds].counts if window_seconds else self._total
        return self._longer(counts)

    def last_times(self) -> Floats:
        """The wall time of the last report of each pair, in seconds since 1970: shape (E,)."""
        return self._longer(self._last)

    def _window(self, seconds: float) -> Window[Positions]:
        return Window(seconds, _NOTHING, self._counted)

    def _longer(self, counts: Floats) -> Floats:
        """Counts with 0 for the newest pairs."""
        missing = len(self.codes) - len(counts)
        return np.concatenate([counts, np.zeros(missing)]) if missing else counts

    def _counted(self, counts: Floats, entities: Positions, amount: int = 1) -> Floats:
        counted = self._longer(counts).copy()
        np.add.at(counted, entities, amount)
        return counted

    def move(self, moves: FleetReindex, windows: Sequence[float]) -> None:
        """Move to the new positions of devices, and remove the codes of removed ones."""
        stays = np.flatnonzero(moves.new_of[self.devices] >= 0)
        new_of = np.full(len(self.codes), -1, dtype=np.int64)
        new_of[stays] = np.arange(len(stays))
        self._total, self._last = self.counts(0.0)[stays], self.last_times()[stays]
        for window in self._windows.values():
            window.move(lambda places: new_of[places[new_of[places] >= 0]], self._longer(window.counts)[stays])
        self.devices = moves.new_of[self.devices[stays]]
        self.codes = [self.codes[place] for place in stays.tolist()]
        self._places, self._of_device = {}, {}
        for place, (device, code) in enumerate(zip(self.devices.tolist(), self.codes, strict=True)):
            self._places[device, code] = place
            self._of_device.setdefault(device, []).append(place)
        # A new window starts empty.
        self._windows = {seconds: self._windows.get(seconds) or self._window(seconds) for seconds in windows}


class ClockEvents:
    """Samples at multiples of an interval.

    :param count: devices, D.
    :param windows: lengths in seconds over which samples are counted.
    """

    def __init__(self, count: int, every_seconds: float, windows: Sequence[float]) -> None:
        self._every = every_seconds
        self._count = count
        self._windows = {seconds: self._window(seconds) for seconds in windows}
        self._interval = -1
        self._before: Bits | None = None
        self._known = np.zeros(count, dtype=np.bool_)
        self._starts = np.zeros((len(CLOCK_EVENTS), count))

    def note(self, reasons: Floats, is_there: Mask, now: float) -> None:
        """Take a sample at the end of a tick if a new interval has started.

        :param is_there: devices that report.
        """
        for window in self._windows.values():
            window.expire(now)
        interval = math.floor(round(now / self._every, 9))
        if interval == self._interval:
            return
        self._interval = interval
        bits = np.where(is_there, reasons, 0.0).astype(np.uint16)
        for window in self._windows.values():
            window.note(now, bits)
        if self._before is not None:
            # Events of the first sample did not start since.
            begun = np.where(self._known & is_there, bits & ~self._before, 0)
            self._starts = self._starts + _events(begun)
            bits = np.where(is_there, bits, self._before)
        self._before, self._known = bits, self._known | is_there

    def samples(self, event: int, window_seconds: float) -> Floats:
        """The number of samples in a window with an event, by its number: shape (D,)."""
        counts: Floats = self._windows[window_seconds].counts[event]
        return counts

    def starts(self, event: int) -> Floats:
        """How often an event has started since the first sample: shape (D,)."""
        starts: Floats = self._starts[event]
        return starts

    def move(self, moves: FleetReindex, windows: Sequence[float]) -> None:
        """Move to the new positions of devices; new ones start at 0."""
        old, stays = moves.old_of, moves.old_of >= 0
        self._count = len(old)
        self._starts = np.where(stays, self._starts[:, old], 0.0)
        self._known = np.where(stays, self._known[old], False)
        if self._before is not None:
            self._before = np.where(stays, self._before[old], 0).astype(np.uint16)
        for window in self._windows.values():
            counts = np.where(stays, window.counts[:, old], 0.0)
            window.move(lambda bits: np.where(stays, bits[old], 0).astype(np.uint16), counts)
        self._windows = {seconds: self._windows.get(seconds) or self._window(seconds) for seconds in windows}

    def _window(self, seconds: float) -> Window[Bits]:
        return Window(seconds, np.zeros((len(CLOCK_EVENTS), self._count)), _sampled)


def _sampled(counts: Floats, bits: Bits, amount: int) -> Floats:
    return counts + _events(bits) if amount > 0 else counts - _events(bits)


def _events(bits: Bits) -> NDArray[np.uint16]:
    """1 where an event's bit is set, else 0: shape (events, D)."""
    return (bits[None, :] >> _SHIFTS) & np.uint16(1)


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
        self.peers = Peers(roster) if any(tally.base == PEERS for tally in tallies) else None
        self._tallies = tuple(tally for tally in tallies if tally.base not in (PEERS, *PROCESS_QUANTITIES))
        self.count_work = any(tally.base in PROCESS_QUANTITIES for tally in tallies)
        self._owners_of = roster.parts.owners_of
        self.are_shown = bool(tallies)
        everyone = np.ones(self._count, dtype=np.bool_)
        self._reports, self._has_reasons = had.get("xid", everyone), had.get(_REASONS, ~everyone)

    def _windows(self, every_seconds: float) -> list[float]:
        """The windows of tallies sampled at an interval; 0 for error codes."""
        within = {tally.within_seconds for tally in self._tallies if tally.every_seconds == every_seconds}
        return sorted(within - {0.0})

    def _make_clocks(self) -> None:
        every_used = {tally.every_seconds for tally in self._tallies if is_sampled(tally.base)}
        self._clocks = {
            interval: self._clocks.get(interval) or ClockEvents(self._count, interval, self._windows(interval))
            for interval in every_used
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
        seen = [report._replace(devices=report.devices[self._reports[report.devices]]) for report in reports]
        gone = before.arrays["lost"] > 0 if before is not None and "lost" in before.arrays else None
        return self._xids.note(seen, gone, now, wall_seconds)

    def note_work(
        self, workloads: Workloads, level: Level, before: Level, seconds: float, frozen: Mask | None = None
    ) -> None:
        """Count what the workloads of a tick have done, at its end.

        :param level, before: the true level of the devices, now and a tick ago.
        :param frozen: units whose series are frozen: what is counted on them is hidden until they are no more.
        """
        table = workloads.table
        devices = self._owners_of(table.device)

        def of_pairs(name: str, absent: float, arrays: Mapping[str, Floats] = level.arrays) -> Floats:
            return arrays[name][devices] if name in arrays else np.full(len(devices), absent)

        counted = {name: getattr(table, name) for name in PROCESS_QUANTITIES}
        hangs, is_lost = of_pairs("hung", 0.0) > 0, of_pairs("lost", 0.0) > 0
        busy = workloads.shares().of("usage_ratio") * of_pairs("work_clock_ratio", 1.0)
        table.worked_seconds = table.worked_seconds + np.where(hangs | is_lost, 0.0, busy * seconds)
        table.stalled_seconds = table.stalled_seconds + np.where(hangs & ~is_lost, seconds, 0.0)
        for name in _CORRECTABLE:
            more = of_pairs(name, 0.0) - of_pairs(name, 0.0, before.arrays)
            # After a reset the counts of a device start again.
            table.corrected_errors = table.corrected_errors + np.maximum(more, 0.0)
        is_frozen = np.zeros(len(devices), np.bool_) if frozen is None else frozen[table.device]
        for name, past in counted.items():
            hidden = getattr(table, f"hidden_{name}")
            if is_frozen.any() or hidden.any():
                more = getattr(table, name) - past
                setattr(table, f"hidden_{name}", np.where(is_frozen, hidden + more, 0.0))

    def shown(self, levels: Levels, exporter_faults: Sequence[Fault] = (), past: Levels | None = None) -> Levels:
        """Levels with the tallies, also of lost devices.

        :param past: what was shown a tick ago, which frozen series keep.
        """
        device = levels[DEVICE]
        if self.peers is not None:
            levels = {**levels, PEER_LEVEL: self.peers.level(device, self._reports)}
        if not self._tallies:
            return levels
        arrays, present = overlaid(device.arrays), overlaid(device.present)
        absent, unknown = self._concerned(exporter_faults, "absent"), self._concerned(exporter_faults, "nan")
        frozen = self._concerned(exporter_faults, "frozen")
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
            values = _kept(values, tally.name, frozen, past, DEVICE)
            arrays[tally.name], present[tally.name] = np.where(unknown, np.nan, values), has & ~absent
        level = Level(device.count, arrays, present)
        return {**levels, DEVICE: level, REPEATED: level, **self._level_of_xids(level, frozen, past)}

    def _concerned(self, faults: Sequence[Fault], kind: str) -> Mask:
        """Devices all of whose series have a kind of exporter fault: shape (D,)."""
        found = np.zeros(self._count, dtype=np.bool_)
        for fault in faults:
            if fault.kind.name == kind and fault.metric is None:
                found[fault.concerned[fault.concerned < self._count]] = True
        return found

    def _level_of_xids(self, device: Level, frozen: Mask, past: Levels | None) -> Levels:
        """The level of reported codes; codes are hidden with the tallies of their device, and while these are frozen if
        they are new.

        :param frozen: devices whose series are frozen.
        """
        names = [tally for tally in self._tallies if tally.base in (XIDS, XID_TIMES)]
        if not names:
            return {}
        owners = self._xids.devices
        arrays: dict[str, Floats] = {}
        for tally in names:
            of_device = device.arrays[tally.name][owners]
            own = self._xids.last_times() if tally.base == XID_TIMES else self._xids.counts(tally.within_seconds)
            own = _kept(own, tally.name, frozen[owners], past, XID_LEVEL)
            arrays[tally.name] = np.where(np.isnan(of_device), of_device, own)
        present = {name.name: device.present[name.name][owners] for name in names}
        if frozen.any():
            for name, has in present.items():
                was_seen = np.zeros(len(owners), np.bool_)
                if past is not None and XID_LEVEL in past and name in past[XID_LEVEL].arrays:
                    was_seen[: past[XID_LEVEL].count] = past[XID_LEVEL].mask(name)[: len(owners)]
                present[name] = has & (~frozen[owners] | was_seen)
        return {XID_LEVEL: Level(len(owners), arrays, present)}

    def xids_of(self, device: int) -> list[tuple[int, int]]:
        """The reported codes of a device, each with its position in the level."""
        return self._xids.of_device(device)

    def move(self, moves: FleetReindex, tallies: Sequence[Tally], roster: Roster, had: Mapping[str, Mask]) -> None:
        """Move to the new positions of devices, and show other tallies, after a reload."""
        self._use(tallies, roster, had)
        self._xids.move(moves, self._windows(0.0))
        self._health.move(moves)
        for interval, clocks in self._clocks.items():
            clocks.move(moves, self._windows(interval))
        self._make_clocks()


def _kept(values: Floats, name: str, frozen: Mask, past: Levels | None, level: str) -> Floats:
    """The values, a tick old where they are frozen; new rows are at the end.

    :param frozen: which are, shape (N,).
    """
    if past is None or level not in past or name not in past[level].arrays or not frozen.any():
        return values
    before = past[level].arrays[name][: len(values)]
    kept = values.copy()
    kept[: len(before)] = np.where(frozen[: len(before)], before, values[: len(before)])
    return kept
