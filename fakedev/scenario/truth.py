"""The truth of a run: which faults there were, and what they did to devices. It is read from the journal.

Alert rules are compared with it: it says when they should have fired. Times are simulated seconds since the start;
what lasts from 600 to 1320 is on the pages of the ticks after 600, and on that of 1320.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from fakedev.base.errors import Refused
from fakedev.fleet.entities.selectors import resolve
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.journal import FLAGS, JournalEntry
from fakedev.fleet.spec.fault_kinds import KINDS

#: The effects of an error code, of a workload that a fault has ended, and of a workload over its limit.
XID: Final = "xid"
ENDED: Final = "ended"
OVER_LIMIT: Final = "over_limit"
#: All effects.
EFFECTS: Final = (*FLAGS, XID, ENDED, OVER_LIMIT)
#: Those that have a code.
CODED: Final = (XID, ENDED, OVER_LIMIT)


@dataclass(frozen=True)
class Cause:
    """A fault, from its beginning to its end; seconds are simulated, since the start.

    :ivar kind: of the fault.
    :ivar name: of the entry of the timeline that it comes from; empty for none.
    :ivar devices: units that it has affected, as ``dgx-0/1``.
    :ivar end_seconds: None: it was not over at the end.
    """

    fault_id: str
    kind: str
    name: str
    devices: tuple[str, ...]
    begin_seconds: float
    end_seconds: float | None
    values: Mapping[str, float]

    def fields(self) -> dict[str, Any]:
        """The cause as plain values, for a line of JSON."""
        return {
            "type": "cause", "kind": self.kind, "name": self.name, "fault": self.fault_id,
            "devices": list(self.devices), "from": self.begin_seconds, "to": self.end_seconds,
            "values": dict(self.values),
        }  # fmt: skip


@dataclass(frozen=True)
class Effect:
    """What a unit showed for some time, or the end of a workload.

    :ivar kind: one of EFFECTS.
    :ivar code: the error code, or the code that a workload ended with.
    :ivar causes: ids of the faults behind it; empty if there are none, or it is not known.
    :ivar name: of the workload that ended.
    """

    kind: str
    code: int
    devices: tuple[str, ...]
    begin_seconds: float
    end_seconds: float | None
    causes: tuple[str, ...]
    name: str = ""

    def fields(self) -> dict[str, Any]:
        """The effect as plain values, for a line of JSON."""
        code = {"code": self.code} if self.kind in CODED else {}
        return {
            "type": "effect", "kind": self.kind, **code, **({"name": self.name} if self.name else {}),
            "devices": list(self.devices), "from": self.begin_seconds, "to": self.end_seconds,
            "causes": list(self.causes),
        }  # fmt: skip


@dataclass(frozen=True)
class Truth:
    """Causes and effects, each by their beginning."""

    causes: tuple[Cause, ...] = ()
    effects: tuple[Effect, ...] = ()

    def lines(self) -> Iterator[dict[str, Any]]:
        """All causes and effects by their beginning, causes first, as plain values."""
        every: list[Cause | Effect] = [*self.causes, *self.effects]
        every.sort(key=lambda each: each.begin_seconds)
        return (effect.fields() for effect in every)


class _Known(NamedTuple):
    """What is known of a fault before it begins: some are over in the tick in which they begin."""

    kind: str
    values: Mapping[str, float]
    lasts: bool


class TruthFinder:
    """Collects the truth while a fleet runs: its :meth:`note` is the fleet's ``tell``."""

    def __init__(self) -> None:
        self._fleet: Fleet | None = None
        self._known: dict[str, _Known] = {}
        self._causes: dict[str, Cause] = {}
        #: The units of each fault that is not over, and whether it affects them now.
        self._units: dict[str, dict[str, bool]] = {}
        self._open: dict[tuple[str, str], Effect] = {}
        self._effects: list[Effect] = []
        self._over: list[Cause] = []
        self._started: dict[str, tuple[str, ...]] = {}
        self._early: list[JournalEntry] = []

    def watch(self, fleet: Fleet) -> None:
        """Use the names and the faults of a fleet."""
        self._fleet = fleet
        self._learn(fleet.faults.by_id)
        early, self._early = self._early, []
        self.note(early)

    def note(self, entries: Sequence[JournalEntry]) -> None:
        """Take entries of the journal, in order."""
        if self._fleet is None:
            self._early += entries
            return
        for entry in entries:
            if entry.kind == "fault":
                self._learn((entry.scope,))
            elif entry.kind in ("began", "struck", "eased", "over"):
                self._note_fault(entry)
            elif entry.kind in FLAGS:
                self._note_effect(entry, 0, is_begin=entry.text == FLAGS[entry.kind][0])
            elif entry.kind == XID:
                _, _, code = entry.text.rpartition(" ")
                self._note_effect(entry, int(code) if code.isdecimal() else 0, is_begin=code.isdecimal())
            elif entry.kind == "start":
                self._started[entry.scope] = self._names(entry)
            elif entry.kind == ENDED:
                self._note_end(entry)

    def truth(self, names: Mapping[str, str]) -> Truth:
        """All causes and effects so far.

        :param names: of entries of the timeline, by the ids of their faults.
        """
        found = sorted((*self._over, *self._causes.values()), key=lambda cause: cause.begin_seconds)
        causes = tuple(replace(cause, name=names.get(cause.fault_id, "")) for cause in found)
        effects = sorted((*self._effects, *self._open.values()), key=lambda effect: effect.begin_seconds)
        return Truth(causes, _merged(effects))

    def _learn(self, fault_ids: Iterable[str]) -> None:
        assert self._fleet is not None
        for fault_id in fault_ids:
            fault = self._fleet.faults.by_id.get(fault_id)
            if fault is not None:
                self._known[fault_id] = _Known(fault.spec.kind, fault.spec.values, fault.lasts)

    def _known_of(self, entry: JournalEntry) -> _Known:
        """What is known of the fault of an entry; of one that a workload or a reload brought, its kind at least."""
        if entry.cause not in self._known:
            self._learn((entry.cause,))
        kind = entry.text.partition(" ")[0]
        return self._known.get(entry.cause) or _Known(kind, {}, kind not in KINDS or KINDS[kind].lasts)

    def _note_fault(self, entry: JournalEntry) -> None:
        fault_id, units, seconds = entry.cause, self._names(entry), self._begin(entry)
        if entry.kind in ("began", "struck"):
            kind, values, lasts = self._known_of(entry)
            if not lasts:
                self._over.append(Cause(fault_id, kind, "", units, seconds, entry.seconds, values))
                return
            affected = self._units.setdefault(fault_id, {})
            affected |= dict.fromkeys(units, True)
            cause = self._causes.get(fault_id)
            new = cause or Cause(fault_id, kind, "", (), seconds, None, values)
            self._causes[fault_id] = replace(new, devices=tuple(affected))
            return
        affected = self._units.get(fault_id, {})
        affected |= dict.fromkeys(units if entry.kind == "eased" else affected, False)
        if fault_id in self._causes and not any(affected.values()):
            # A fault that returns is another incident.
            self._over.append(replace(self._causes.pop(fault_id), end_seconds=seconds))
            del self._units[fault_id]

    def _begin(self, entry: JournalEntry) -> float:
        """The beginning of the tick of an entry."""
        assert self._fleet is not None
        return round(max(entry.seconds - self._fleet.spec.tick_seconds, 0.0), 6)

    def _note_effect(self, entry: JournalEntry, code: int, *, is_begin: bool) -> None:
        causes = tuple(entry.cause.split(",")) if entry.cause else ()
        for unit in self._names(entry):
            before = self._open.pop((entry.kind, unit), None)
            if before is not None:
                self._effects.append(replace(before, end_seconds=self._begin(entry)))
            if is_begin:
                self._open[entry.kind, unit] = Effect(entry.kind, code, (unit,), self._begin(entry), None, causes)

    def _note_end(self, entry: JournalEntry) -> None:
        units = self._started.pop(entry.scope, ())
        name, _, rest = entry.text.rpartition(": ") if entry.text.count(": ") == 1 else entry.text.partition(": ")
        code, _, reason = rest.partition(" ")
        if code.lstrip("-").isdecimal() and int(code):
            causes = tuple(entry.cause.split(",")) if entry.cause else ()
            kind = OVER_LIMIT if reason.startswith("Limit ") and not causes else ENDED
            effect = Effect(kind, int(code), units, entry.seconds, entry.seconds, causes, name)
            self._effects.append(effect)

    def _names(self, entry: JournalEntry) -> tuple[str, ...]:
        """The units that an entry concerns, by their names."""
        if not entry.devices:
            return ()
        assert self._fleet is not None
        try:
            found = resolve(entry.devices.split(","), self._fleet.roster)
        except Refused:  # the devices are gone
            return ()
        return tuple(self._fleet.roster.unit_name(unit) for unit in found.tolist())


def _merged(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """Effects of several units that began and ended together, as one."""
    groups: dict[tuple[object, ...], list[Effect]] = {}
    for effect in effects:
        key = (effect.kind, effect.code, effect.begin_seconds, effect.end_seconds, effect.causes, effect.name)
        groups.setdefault(key, []).append(effect)
    return tuple(
        replace(group[0], devices=tuple(dict.fromkeys(unit for effect in group for unit in effect.devices)))
        for group in groups.values()
    )
