"""The journal: what happened to a fleet and why, for users, and its entries.

Entries are of events, of churn, and of the ends of workloads. The journal also has the time since when devices show a
flag or a code.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from fakedev.base.errors import first_names
from fakedev.base.framed_lines import checked
from fakedev.base.steps import Steps
from fakedev.fleet.entities.reindex import Reindex
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.selectors import words_of
from fakedev.fleet.entities.state import Level, Mask, Positions
from fakedev.fleet.events import (
    ChangeClock,
    ChangeNodes,
    ClearFaults,
    DivideBoard,
    DropWorkloads,
    InjectFault,
    Reload,
    Reset,
    Stamped,
    StartWorkload,
    StopWorkloads,
)
from fakedev.fleet.faults.faults import Faults
from fakedev.fleet.faults.rules import Change
from fakedev.fleet.workloads.workload import Verdict, Workload

_LONGEST_TEXT: Final = 400
#: Workloads or faults that the scope of one event names; of more it has the number.
_MAX_IDS: Final = 50
#: The end of a workload; the entry of its start has its devices.
ENDED: Final = "ended"
#: A queue was paused, drained, or is open again.
QUEUE: Final = "queue"


class JournalEntry(NamedTuple):
    """An entry of the journal: a tuple, because thousands are made in a tick in which thousands of workloads end.

    :param kind: one of JOURNAL_KINDS: an event, as in the record, a change of a fault, a change of a device's
        quantity, or the end of a workload.
    :param scope: the devices, workload or fault that it concerns.
    :param cause: the event, fault or quantity that caused it; empty if unknown.
    :param devices: device words for all devices and parts that it concerns, joined by commas; empty if the entry of the
        workload's or fault's start has them, or if the entry is brief.
    """

    tick: int
    seconds: float
    kind: str
    scope: str
    cause: str
    text: str
    devices: str = ""

    @property
    def size(self) -> int:
        """The number of characters of its devices."""
        return len(self.devices)

    def brief(self) -> JournalEntry:
        """The same entry without its devices."""
        return self._replace(devices="")

    def fields(self) -> dict[str, object]:
        """The entry as plain values."""
        return {
            "tick": self.tick,
            "seconds": self.seconds,
            "kind": self.kind,
            "scope": self.scope,
            "cause": self.cause,
            "text": self.text,
            "devices": self.devices.split(",") if self.devices else [],
        }

    def line(self, max_bytes: int | None = None) -> bytes:
        """A line of the journal's file; in a longer one null takes the place of the devices."""
        line = checked(self.fields())
        return line if max_bytes is None or len(line) <= max_bytes else checked({**self.fields(), "devices": None})


class Ends(Sequence[JournalEntry]):
    """The entries of the workloads that ended in a tick; each is worded when it is read.

    The entries of their starts have their devices.

    :param causes: ids of the faults that ended workloads, by the workload's id.
    """

    def __init__(self, tick: int, seconds: float, verdicts: Sequence[Verdict], causes: Mapping[str, str]) -> None:
        self._tick, self._seconds = tick, seconds
        self._verdicts, self._causes = verdicts, causes

    def __len__(self) -> int:
        return len(self._verdicts)

    @overload
    def __getitem__(self, place: int) -> JournalEntry: ...

    @overload
    def __getitem__(self, place: slice) -> Ends: ...

    def __getitem__(self, place: int | slice) -> JournalEntry | Ends:
        if isinstance(place, slice):
            return Ends(self._tick, self._seconds, self._verdicts[place], self._causes)
        ended, name, code, text, *_ = self._verdicts[place]
        cause = self._causes.get(ended, "")
        return JournalEntry(self._tick, self._seconds, ENDED, ended, cause, f"{name}: {code} {text}")

    @property
    def devices(self) -> list[Positions]:
        """The positions of the units that each of them concerns."""
        return [verdict.devices for verdict in self._verdicts]

    @property
    def width(self) -> int:
        """The number of units that the first one concerns."""
        return len(self._verdicts[0].devices)


def entry_of_event(stamped: Stamped, seconds: float) -> JournalEntry:
    """The entry for an accepted event."""
    match stamped.event:
        case StartWorkload(workload):
            kind, scope, text = "start", f"w{stamped.sequence}", f"{workload.name} on {','.join(workload.devices)}"
        case StopWorkloads(workload_ids, reason):
            kind, scope, text = "stop", first_names(workload_ids, _MAX_IDS), reason
        case DropWorkloads(workload_ids):
            whose = "its" if len(workload_ids) == 1 else "their"
            kind, scope, text = "drop", first_names(workload_ids, _MAX_IDS), f"{whose} peer is gone"
        case InjectFault(fault):
            of_node = f" of {fault.node}" if fault.node else ""
            kind, scope, text = "fault", f"f{stamped.sequence}", f"{fault.kind} on {','.join(fault.devices)}{of_node}"
        case ClearFaults(fault_ids):
            kind, scope, text = "clear", first_names(fault_ids, _MAX_IDS), "cleared"
        case ChangeClock(_, _, reason):
            kind, scope, text = "clock", "clock", reason
        case Reload(compiled, _):
            kind, scope, text = "reload", "fleet", compiled.roster.summary
        case Reset(reason):
            kind, scope, text = "reset", "fleet", reason
        case ChangeNodes(joined, left):
            came, went = [name for name, _ in joined], frozenset(left)
            names = {
                "joined": [name for name in came if name not in went],
                "left": sorted(went.difference(came)),
                "has other devices": [name for name in came if name in went],
            }
            texts = [f"{first_names(nodes, _MAX_IDS)} {what}" for what, nodes in names.items() if nodes]
            kind, scope, text = "nodes", "fleet", "; ".join(texts)
        case DivideBoard(node, index, instances):
            profiles = ", ".join(instance.profile for instance in instances or ()) or "none"
            text = "MIG mode is off" if instances is None else f"instances: {profiles}"
            kind, scope = "mig", f"{node}/{index}"
    return JournalEntry(stamped.tick, seconds, kind, scope, f"event {stamped.sequence}", text[:_LONGEST_TEXT])


def entry_of_start(workload: Workload, cause: str, tick: int, seconds: float) -> JournalEntry:
    """The entry for a workload that no event started.

    :param cause: ``churn``, or ``restart`` for work of the configuration that starts again.
    """
    spec = workload.spec
    text = f"{spec.name} on {','.join(spec.devices)}"
    return JournalEntry(tick, seconds, "start", workload.workload_id, cause, text[:_LONGEST_TEXT])


T = TypeVar("T")

#: Entries that a fleet keeps in memory.
MAX_KEPT: Final = 10_000
#: Devices of all kept entries together; beyond this the oldest entries are not found by device.
_MAX_DEVICES: Final = 2_000_000
#: Devices that a scope names; of more devices it has the number.
_MAX_NAMED: Final = 8
#: Sets of devices with cached device words, for entries of one tick.
_MAX_WORDED: Final = 32
#: Characters of device words of all kept entries together; beyond this the oldest entries lose theirs.
_MAX_WORDS: Final = 16 * 2**20
#: The flags of devices: texts for a quantity that changes from 0, and back to 0.
FLAGS: Final = {
    "throttled_thermal": ("throttling by heat began", "throttling by heat is over"),
    "throttled_power": ("throttling by the power limit began", "throttling by the power limit is over"),
    "throttled_hardware": ("the hardware slowdown began", "the hardware slowdown is over"),
    "hung": ("hangs", "no longer hangs"),
    "lost": ("is lost", "is back"),
}
#: Characters of device words of the faults and devices in a tick; beyond this its further entries have none.
_MAX_WORDS_OF_TICK: Final = 2**16
#: Groups of devices with the same cause, of one change in a tick; the last has all others, without a cause.
_MAX_GROUPS: Final = 256
#: Quantities whose other values are reported, and the noun for them.
_VALUES: Final = {"xid": "XID"}
#: Kinds of entries of events.
_EVENTS: Final = ("start", "stop", "drop", "clock", "reload", "reset", "nodes", "mig", "fault", "clear")
#: All kinds of entries.
JOURNAL_KINDS: Final = (*_EVENTS, "began", "struck", "eased", "over", *FLAGS, *_VALUES, ENDED, QUEUE)
#: Devices of an entry from which on it is settled alone.
_WIDE: Final = 1000
#: For entries without devices.
NO_DEVICES: Final = np.zeros(0, dtype=np.int64)


#: Receives entries of the journal, in order.
Tell = Callable[[Sequence[JournalEntry]], None]


def no_op(entries: Sequence[JournalEntry]) -> None:
    """Do nothing with entries."""


class FleetJournal:
    """The last entries of a fleet's journal, and the ticks in which the devices' flags and codes changed last.

    :param tell: receives each entry, in order.
    :ivar counts: entries of each kind since the start of the process.
    """

    def __init__(self, roster: Roster, tell: Tell = no_op) -> None:
        self._roster = roster
        self.tell = tell
        self.counts = dict.fromkeys(JOURNAL_KINDS, 0)
        self._tick = self._size_of_tick = 0
        self._recent: Recent = Recent(MAX_KEPT, _MAX_DEVICES, _MAX_WORDS)
        self._ends: Ends | None = None
        #: Device words of the last sets of units: entries of one fault often concern the same units.
        self._worded: dict[bytes, str] = {}
        self._since = {name: np.zeros(roster.parts.unit_count, dtype=np.int64) for name in (*FLAGS, *_VALUES)}

    def reindex(self, roster: Roster, moves: Reindex, tick: int) -> None:
        """Use the new positions of the units (devices and parts); new units have not changed since ``tick``."""
        self.settle()
        self._roster = roster
        self._worded.clear()
        self._recent.reindex(moves)
        added = np.full(roster.parts.unit_count, tick, dtype=np.int64)
        self._since = {name: moves.carried(since, added) for name, since in self._since.items()}

    def begin_again(self, tick: int) -> None:
        """No flag or code of a unit has changed since ``tick``; the entries stay."""
        for since in self._since.values():
            since.fill(tick)

    def last(self, count: int, kinds: Collection[str] = (), on: Mask | None = None) -> list[JournalEntry]:
        """The last entries, oldest first; parameters as for :meth:`Recent.last`."""
        self.settle()
        return self._recent.last(count, kinds, on)

    def since(self, name: str, device: int) -> int:
        """The tick of the last change of a unit's flag or code."""
        return int(self._since[name][device])

    def note(self, entries: Sequence[JournalEntry], devices: Sequence[Positions]) -> None:
        """Add entries.

        :param devices: positions of the units that each of them concerns.
        """
        if entries:
            self._add([self._with_words(entry, units) for entry, units in zip(entries, devices, strict=True)], devices)

    def _with_words(self, entry: JournalEntry, devices: Positions) -> JournalEntry:
        """The entry with its device words; those of faults and devices end when a tick has too many."""
        is_event = entry.kind in _EVENTS
        if entry.tick != self._tick:
            self._tick, self._size_of_tick = entry.tick, 0
        if not len(devices) or not (is_event or self._size_of_tick < _MAX_WORDS_OF_TICK):
            return entry
        entry = entry._replace(devices=self._words(devices))
        self._size_of_tick += 0 if is_event else entry.size
        return entry

    def _add(self, entries: Sequence[JournalEntry], devices: Sequence[Positions]) -> None:
        self.settle()
        self._recent.add(entries, devices)
        for entry in entries:
            self.counts[entry.kind] += 1
        self.tell(entries)

    def note_ends(self, tick: int, seconds: float, verdicts: Sequence[Verdict], causes: Mapping[str, str]) -> None:
        """Add entries for workloads that ended in a tick: they are worded at the next use of the journal.

        :param causes: ids of the faults that ended workloads, by the workload's id.
        """
        if verdicts:
            self.settle()
            ends = Ends(tick, seconds, verdicts, causes)
            self._ends = ends[-MAX_KEPT:]
            self.counts[ENDED] += len(ends)
            self.tell(ends)

    def settle(self, most: int | None = None) -> bool:
        """Word the entries of the workloads that ended last, if that is not done yet.

        :param most: maximum; None: all.
        :returns: whether there are more.
        """
        if self._ends:
            if most and self._ends.width > _WIDE:
                most = 1  # e.g. workloads of all devices, whose positions take as long as thousands of others
            ends, self._ends = self._ends[:most], self._ends[most:] if most else None
            self._recent.add(list(ends), ends.devices)
        return not self.is_settled

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to :meth:`settle`."""
        return not self._ends

    def note_faults(self, tick: int, seconds: float, changes: Sequence[Change]) -> Steps[None]:
        """Add entries for the changes of faults in a tick."""
        for fault, what, devices in changes:
            text = f"{fault.spec.kind} {what}"
            scope = self.names(devices) or "no device"
            self.note([JournalEntry(tick, seconds, what, scope, fault.fault_id, text)], [devices])
            yield

    def note_devices(
        self, tick: int, seconds: float, before: Level, after: Level, faults: Faults
    ) -> Steps[None]:
        """Add entries for the changes of devices in a tick, and of parts that change without their device.

        :param before, after: the level of the units, one tick ago and now.
        """

        def note(name: str, changed: Positions, text: str) -> None:
            if not len(changed):
                return
            signs = faults.signs(before, after)
            groups = faults.units_by_cause(name, changed, signs)
            if len(groups) > _MAX_GROUPS:
                # Many faults at random make a group of almost each device.
                groups[_MAX_GROUPS - 1 :] = [np.sort(np.concatenate(groups[_MAX_GROUPS - 1 :]))]
            causes = faults.behind_each(name, [int(devices[0]) for devices in groups], signs)
            for number, devices in enumerate(groups, 1):
                cause = ",".join(fault.fault_id for fault in causes[number - 1]) if number < _MAX_GROUPS else ""
                self.note([JournalEntry(tick, seconds, name, self.names(devices), cause, text)], [devices])

        for name in self._since:
            now, past = after.arrays.get(name), before.arrays.get(name)
            if now is past or now is None or past is None or not np.count_nonzero(now != past):
                continue
            if name in FLAGS:
                changed = np.flatnonzero((now > 0) != (past > 0))
            else:
                changed = np.flatnonzero((now != past) & after.mask(name))
            if not len(changed):
                continue
            self._since[name][changed] = tick
            changed = self._roster.parts.without_parts(changed)
            if name in FLAGS:
                began, ended = FLAGS[name]
                note(name, changed[now[changed] > 0], began)
                yield
                note(name, changed[now[changed] <= 0], ended)
                yield
                continue
            for value in sorted(set(now[changed].tolist())):
                noun = _VALUES[name]
                note(name, changed[now[changed] == value], f"{noun} {value:g}" if value else f"{noun} is cleared")
                yield

    def _words(self, devices: Positions) -> str:
        """Device words for all of some units."""
        key = devices.tobytes()
        if key not in self._worded:
            if len(self._worded) == _MAX_WORDED:
                self._worded.clear()
            self._worded[key] = ",".join(words_of(self._roster, devices))
        return self._worded[key]

    def names(self, devices: Positions) -> str:
        """The names of devices; of many devices the first names, and the number of the others."""
        names = [self._roster.unit_name(device) for device in devices[:_MAX_NAMED].tolist()]
        more = len(devices) - len(names)
        return ", ".join(names) + (f" and {more} more" if more else "")


class Recent:
    """A ring of the newest entries, each with the units (devices and parts) that it concerns.

    :param max_devices: the most units of all entries together; beyond it the oldest entries are found by kind only.
    :param max_size: the most of the entries' sizes together; beyond it the oldest entries become brief.
    """

    def __init__(self, most: int, max_devices: int, max_size: int) -> None:
        self._most = most
        self._max_devices = max_devices
        self._max_size = max_size
        self._size = 0
        self._kept: deque[JournalEntry] = deque(maxlen=most)
        #: The number of units of each of the newest entries, in the same order.
        self._counts: deque[int] = deque(maxlen=most)
        #: The units, grouped by entry, -1 for removed units: the last ``_device_count`` of the array are valid.
        self._devices = array("i")
        self._device_count = 0

    def add(self, entries: Sequence[JournalEntry], devices: Sequence[Positions]) -> None:
        """Add entries.

        :param devices: positions of the units that each of them concerns.
        """
        entries, devices = entries[-self._most :], devices[-self._most :]
        counts = [len(device) for device in devices]
        self._device_count += sum(counts) - sum(islice(self._counts, _beyond(self._counts, counts)))
        gone = islice(self._kept, _beyond(self._kept, entries))
        self._size += sum(entry.size for entry in entries) - sum(entry.size for entry in gone)
        self._kept.extend(entries)
        if self._size > self._max_size:
            self._shorten()
        self._counts.extend(counts)
        units = devices[0] if len(devices) == 1 else np.concatenate(devices)
        self._devices.frombytes(units.astype(np.int32).tobytes())
        while self._device_count > self._max_devices:
            self._device_count -= self._counts.popleft()
        if len(self._devices) > 2 * self._device_count:
            del self._devices[: len(self._devices) - self._device_count]

    def last(self, count: int, kinds: Collection[str] = (), on: Mask | None = None) -> list[JournalEntry]:
        """The last entries, oldest first.

        :param kinds: only entries of these kinds; empty: all.
        :param on: only entries that concern one of these units, shape (units,); None: all.
        """
        entries = list(self._kept)
        if on is not None:
            newest = entries[len(entries) - len(self._counts) :]
            entries = [entry for entry, concerned in zip(newest, self._concerned(on), strict=True) if concerned]
        if kinds:
            entries = [entry for entry in entries if entry.kind in kinds]
        return entries[-count:] if count else []

    def reindex(self, moves: Reindex) -> None:
        """Use the new positions of the units."""
        new_of = np.append(moves.new_of, -1).astype(np.int32)
        self._devices = array("i", new_of[self._flat()].tobytes())

    def _shorten(self) -> None:
        """Make the oldest entries brief until the size is half of the most, so that this is rarely necessary."""
        entries = list(self._kept)
        for position, entry in enumerate(entries):
            if 2 * self._size <= self._max_size:
                break
            entries[position] = entry.brief()
            self._size -= entry.size
        self._kept = deque(entries, self._kept.maxlen)

    def _concerned(self, on: Mask) -> list[bool]:
        ends = np.cumsum(self._counts, dtype=np.int64)
        found = np.append(0, np.cumsum(np.append(on, False)[self._flat()]))
        among: list[bool] = (found[ends] > found[np.append(0, ends[:-1])]).tolist() if len(ends) else []
        return among

    def _flat(self) -> NDArray[np.int32]:
        """The units of all entries. Nothing can be added while the caller holds this view."""
        first = len(self._devices) - self._device_count
        return np.frombuffer(self._devices, dtype=np.int32)[first:] if self._devices else np.zeros(0, dtype=np.int32)


def _beyond(kept: deque[T], more: Sequence[object]) -> int:
    """The number of elements that a full ring loses when more are added."""
    return max(len(kept) + len(more) - (kept.maxlen or 0), 0)
