"""What happened to a fleet, and why: the journal, and since when devices are as they are.

The last things that happened, and which units (devices and parts) each concerns, to find those of a few.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.carry_over import Reindex
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.selectors import words_of
from fakedev.sim.entities.state import Level, Mask
from fakedev.sim.events import (
    ChangeClock,
    ClearFault,
    DropWorkload,
    InjectFault,
    Reload,
    Stamped,
    StartWorkload,
    StopWorkload,
)
from fakedev.sim.faults.causes import faults_behind, units_by_cause
from fakedev.sim.faults.fault import Change
from fakedev.sim.faults.faults import Faults
from fakedev.sim.workloads.schedule import Positions
from fakedev.sim.workloads.workload import Verdict, Workload


class Entry(Protocol):
    """Something of a kind, a part of which may be forgotten."""

    @property
    def kind(self) -> str:
        """Its kind."""
        ...

    @property
    def size(self) -> int:
        """How large the part is that may be forgotten."""
        ...

    def brief(self) -> Self:
        """The same without that."""
        ...


Kept = TypeVar("Kept", bound=Entry)


class Recent(Generic[Kept]):
    """The newest entries, each with the units that it concerns.

    :param most: entries that are kept.
    :param max_devices: units that are kept of all of them together; the oldest entries are then found by their
        kind only.
    :param max_size: what all of them together may have of what may be forgotten; beyond that the oldest forget it.
    """

    def __init__(self, most: int, max_devices: int, max_size: int) -> None:
        self._max_devices = max_devices
        self._max_size = max_size
        self._size = 0
        self._kept: deque[Kept] = deque(maxlen=most)
        #: How many units each of the newest entries concerns, in the same order.
        self._counts: deque[int] = deque(maxlen=most)
        #: These units, one entry's after the other's, -1 of those that are gone: the last ``_device_count``.
        self._devices = array("i")
        self._device_count = 0

    def add(self, entry: Kept, devices: Positions) -> None:
        """Keep an entry.

        :param devices: positions of the units that it concerns.
        """
        if len(self._counts) == self._counts.maxlen:
            self._device_count -= self._counts[0]
        if len(self._kept) == self._kept.maxlen:
            self._size -= self._kept[0].size
        self._kept.append(entry)
        self._size += entry.size
        if self._size > self._max_size:
            self._forget()
        self._counts.append(len(devices))
        self._devices.frombytes(devices.astype(np.int32).tobytes())
        self._device_count += len(devices)
        while self._device_count > self._max_devices:
            self._device_count -= self._counts.popleft()
        if len(self._devices) > 2 * self._device_count:
            del self._devices[: len(self._devices) - self._device_count]

    def last(self, count: int, kinds: Collection[str] = (), on: Mask | None = None) -> list[Kept]:
        """The last entries, oldest first.

        :param kinds: those of these kinds; of all, when there are none.
        :param on: those that concern one of these units, shape (units,); None: all.
        """
        entries = list(self._kept)
        if on is not None:
            newest = entries[len(entries) - len(self._counts) :]
            entries = [entry for entry, concerned in zip(newest, self._concerned(on), strict=True) if concerned]
        if kinds:
            entries = [entry for entry in entries if entry.kind in kinds]
        return entries[-count:] if count else []

    def move(self, moves: Reindex) -> None:
        """The units have new places."""
        new_of = np.append(moves.new_of, -1).astype(np.int32)
        self._devices = array("i", new_of[self._flat()].tobytes())

    def _forget(self) -> None:
        """Let the oldest forget so much that half of what may be is left: so it is not done for each entry."""
        entries = list(self._kept)
        for place, entry in enumerate(entries):
            if 2 * self._size <= self._max_size:
                break
            entries[place] = entry.brief()
            self._size -= entry.size
        self._kept = deque(entries, self._kept.maxlen)

    def _concerned(self, on: Mask) -> list[bool]:
        ends = np.cumsum(self._counts, dtype=np.int64)
        found = np.append(0, np.cumsum(np.append(on, False)[self._flat()]))
        among: list[bool] = (found[ends] > found[np.append(0, ends[:-1])]).tolist() if len(ends) else []
        return among

    def _flat(self) -> NDArray[np.int32]:
        """The units of all entries, one after the other. While it is there nothing can be added."""
        first = len(self._devices) - self._device_count
        return np.frombuffer(self._devices, dtype=np.int32)[first:] if self._devices else np.zeros(0, dtype=np.int32)

#: The last things that happened are kept for those who ask.
MAX_KEPT: Final = 10_000
#: Devices that these concern, all together: beyond that the oldest are not found by device.
_MAX_DEVICES: Final = 2_000_000
#: Devices that are named in a scope; of more it is said how many there are.
_MAX_NAMED: Final = 8
#: Sets of devices whose words are known, so that they are not looked for again in the same tick.
_MAX_WORDED: Final = 32
#: Characters of device words that are kept of all entries together: beyond that the oldest have none.
_MAX_WORDS: Final = 16 * 2**20
#: What is told of a quantity that leaves 0, or comes back to it.
_FLAGS: Final = {
    "throttled_thermal": ("throttling by heat began", "throttling by heat is over"),
    "throttled_power": ("throttling by the power limit began", "throttling by the power limit is over"),
    "throttled_hardware": ("the hardware slowdown began", "the hardware slowdown is over"),
    "hung": ("hangs", "hangs no more"),
    "lost": ("is lost", "is back"),
}
_LONGEST_TEXT: Final = 400
#: What is told of another value.
_VALUES: Final = {"xid": "XID"}
#: The end of a workload, whose devices were told when it started.
_ENDED: Final = "ended"
#: Every kind of happening.
HAPPENING_KINDS: Final = (
    "start", "stop", "drop", "clock", "reload", "fault", "clear", "began", "struck", "eased", "over", *_FLAGS, *_VALUES,
    _ENDED,
)  # fmt: skip
#: Something that concerns no device.
NO_DEVICES: Final = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Happening:
    """Something that happened.

    :param kind: one of HAPPENING_KINDS: an event, as in the record, what became of a fault, the quantity of a device
        that changed, or the end of a workload.
    :param scope: whom it concerns: devices, a workload, a fault.
    :param cause: the event, fault or quantity that it follows from; empty where that is not known.
    :param devices: words for all devices and parts that it concerns, joined by commas; empty where those are
        told with the start of a workload or fault that it is about, or nobody knows them any more.
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
        """Characters that it takes because of its devices."""
        return len(self.devices)

    def brief(self) -> Happening:
        """The same without its devices."""
        return replace(self, devices="")

    def fields(self) -> dict[str, object]:
        """As plain values, for a line of the journal."""
        return {
            "tick": self.tick,
            "seconds": self.seconds,
            "kind": self.kind,
            "scope": self.scope,
            "cause": self.cause,
            "text": self.text,
            "devices": self.devices.split(",") if self.devices else [],
        }


def no_op(happening: Happening) -> None:
    """A listener that keeps nothing."""


class Happenings:
    """The last things that happened, and since which tick devices are as they are.

    :param tell: is told each thing that happens, in order.
    """

    def __init__(self, roster: Roster, tell: Callable[[Happening], None] = no_op) -> None:
        self._roster = roster
        self._tell = tell
        self._recent: Recent[Happening] = Recent(MAX_KEPT, _MAX_DEVICES, _MAX_WORDS)
        #: Words for units that were told of lately: what becomes of faults often concerns the same again.
        self._worded: dict[bytes, str] = {}
        self._since = {name: np.zeros(roster.parts.unit_count, dtype=np.int64) for name in (*_FLAGS, *_VALUES)}

    def move(self, roster: Roster, moves: Reindex, tick: int) -> None:
        """The units (devices and parts) have new places; those that have come are as they are since ``tick``."""
        self._roster = roster
        self._worded.clear()
        self._recent.move(moves)
        came = np.full(roster.parts.unit_count, tick, dtype=np.int64)
        self._since = {name: moves.carried(since, came) for name, since in self._since.items()}

    def last(self, count: int, kinds: Collection[str] = (), on: Mask | None = None) -> list[Happening]:
        """The last things that happened, oldest first.

        :param kinds: those of these kinds; of all, when there are none.
        :param on: those that concern one of these units (devices and parts), shape (units,); None: all.
        """
        return self._recent.last(count, kinds, on)

    def since(self, name: str, device: int) -> int:
        """The tick in which a flag of a unit, or a code that it reports, became what it is."""
        return int(self._since[name][device])

    def note(self, happening: Happening, devices: Positions = NO_DEVICES) -> None:
        """Something has happened.

        :param devices: positions of the units that it concerns.
        """
        if len(devices) and happening.kind != _ENDED:
            happening = replace(happening, devices=self._words(devices))
        self._recent.add(happening, devices)
        self._tell(happening)

    def note_faults(self, tick: int, seconds: float, changes: Sequence[Change]) -> None:
        """What became of faults in a tick."""
        for fault, what, devices in changes:
            text = f"{fault.spec.kind} {what}"
            scope = self.names(devices) or "no device"
            self.note(Happening(tick, seconds, what, scope, fault.fault_id, text), devices)

    def note_devices(
        self, tick: int, seconds: float, before: Level, after: Level, faults: Faults
    ) -> None:
        """What devices, and parts by themselves, show now, and did not a tick ago.

        :param before, after: what the units show.
        """

        def note(name: str, changed: Positions, text: str) -> None:
            for devices in units_by_cause(faults, name, changed) if len(changed) else ():
                cause = ",".join(fault.fault_id for fault in faults_behind(faults, name, int(devices[0])))
                self.note(Happening(tick, seconds, name, self.names(devices), cause, text), devices)

        for name, (began, ended) in _FLAGS.items():
            now, past = _shown(after, name), _shown(before, name)
            if now is past or now is None or past is None:
                continue
            changed = np.flatnonzero((now > 0) != (past > 0))
            if not len(changed):
                continue
            self._since[name][changed] = tick
            changed = self._by_themselves(changed)
            note(name, changed[now[changed] > 0], began)
            note(name, changed[now[changed] <= 0], ended)
        for name, noun in _VALUES.items():
            now, past = _shown(after, name), _shown(before, name)
            if now is past or now is None or past is None:
                continue
            changed = np.flatnonzero((now != past) & after.present.get(name, True))
            self._since[name][changed] = tick
            changed = self._by_themselves(changed)
            for value in np.unique(now[changed]).tolist():
                note(name, changed[now[changed] == value], f"{noun} {value:g}" if value else f"{noun} is cleared")

    def _by_themselves(self, changed: NDArray[np.int64]) -> NDArray[np.int64]:
        """Units that have changed, without the parts of devices that have."""
        parts = self._roster.parts
        if not parts.count or not len(changed):
            return changed
        return changed[(changed < parts.device_count) | ~np.isin(parts.owners_of(changed), changed)]

    def _words(self, devices: Positions) -> str:
        """Words for all of some units."""
        key = devices.tobytes()
        if key not in self._worded:
            if len(self._worded) == _MAX_WORDED:
                self._worded.clear()
            self._worded[key] = ",".join(words_of(self._roster, devices))
        return self._worded[key]

    def names(self, devices: NDArray[np.int64]) -> str:
        """The names of devices; of many the first, and how many more there are."""
        names = [self._roster.unit_name(device) for device in devices[:_MAX_NAMED].tolist()]
        more = len(devices) - len(names)
        return ", ".join(names) + (f" and {more} more" if more else "")


def happening_of(stamped: Stamped, seconds: float) -> Happening:
    """An event that has arrived."""
    match stamped.event:
        case StartWorkload(workload):
            kind, scope, text = "start", f"w{stamped.sequence}", f"{workload.name} on {','.join(workload.devices)}"
        case StopWorkload(workload_id, reason):
            kind, scope, text = "stop", workload_id, reason
        case DropWorkload(workload_id):
            kind, scope, text = "drop", workload_id, "its peer is gone"
        case InjectFault(fault):
            of_node = f" of {fault.node}" if fault.node else ""
            kind, scope, text = "fault", f"f{stamped.sequence}", f"{fault.kind} on {','.join(fault.devices)}{of_node}"
        case ClearFault(fault_id):
            kind, scope, text = "clear", fault_id, "cleared"
        case ChangeClock(_, _, reason):
            kind, scope, text = "clock", "clock", reason
        case Reload(compiled, _):
            kind, scope, text = "reload", "fleet", compiled.roster.summary
    return Happening(stamped.tick, seconds, kind, scope, f"event {stamped.sequence}", text[:_LONGEST_TEXT])


def coming_by_itself(workload: Workload, tick: int, seconds: float) -> Happening:
    """A workload that no event started: churn."""
    spec = workload.spec
    text = f"{spec.name} on {','.join(spec.devices)}"
    return Happening(tick, seconds, "start", workload.workload_id, "churn", text[:_LONGEST_TEXT])


def ending(tick: int, seconds: float, verdict: Verdict, cause: str) -> Happening:
    """A workload that is over.

    :param cause: the fault that ended it; empty for none.
    """
    text = f"{verdict.name}: {verdict.code} {verdict.text}"
    return Happening(tick, seconds, _ENDED, verdict.workload_id, cause, text)


def _shown(level: Level, name: str) -> Floats | None:
    return level.arrays.get(name)
