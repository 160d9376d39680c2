"""Timelines: entries become occurrences with times, devices and durations; and the player on a fleet.

An entry occurs at a time, or after another entry; once, again and again, or at times that the seed draws. What is
drawn depends on the seed, the words of the entry and the number of the occurrence alone: an entry more changes no
other one.

The player applies what is due before each tick, live and in virtual time alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from zope.interface import Interface

from fakedev.base.errors import Refused
from fakedev.fleet.door import fault_id_of, workload_id_of
from fakedev.fleet.entities.randomness import uniform
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.selectors import resolve
from fakedev.fleet.events import ClearFaults, InjectFault, StartWorkload, StopWorkloads
from fakedev.fleet.faults.effects import effect_of, is_lasting
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fault_kinds import KINDS
from fakedev.fleet.spec.fleet_spec import FaultSpec
from fakedev.fleet.spec.limits import entity_key
from fakedev.scenario.entries import (
    ALL,
    ANY,
    NO_TIME,
    Action,
    Clear,
    Entry,
    Inject,
    Occurrence,
    Reconfigure,
    Run,
    Span,
    Speed,
    Stop,
    When,
)

#: The most occurrences of all entries together.
MAX_OCCURRENCES: Final = 100_000


class Impossible(Exception):
    """An entry that cannot occur as it is written; ``str`` of it is the reason."""

    def __init__(self, entry: Entry, reason: str) -> None:
        super().__init__(reason)
        self.entry = entry


def occurrences_of(entries: Sequence[Entry], span_seconds: float, seed: int, roster: Roster) -> tuple[Occurrence, ...]:
    """All occurrences of some entries within a span, by time; at the same time in the order of the entries.

    :param roster: of the fleet at the start, from which devices are drawn.
    :raises Impossible: for an entry that cannot occur.
    """
    keys = _keys(entries)
    by_name = {entry.name: place for place, entry in enumerate(entries) if entry.name}
    times: dict[int, list[float]] = {}
    count = 0
    for place in _in_order(entries, by_name):
        entry = entries[place]
        when, draw = entry.when, _Draw(seed, keys[place])
        if when.after:
            begins = [seconds + draw(when.delay, "delay", number)
                      for number, seconds in enumerate(times[by_name[when.after]])]  # fmt: skip
        else:
            begins = [draw(when.at or NO_TIME, "at", 0)]
        end = span_seconds if when.until_seconds is None else min(span_seconds, when.until_seconds)
        times[place] = [moment for begin in begins for moment in _repeated(when, begin, end, draw)]
        if not times[place]:
            raise Impossible(entry, f"never occurs before the end, {end:g} s after the start")
        count += len(times[place])
        if count > MAX_OCCURRENCES:
            raise Impossible(entry, f"with it there are more than {MAX_OCCURRENCES} occurrences: repeat it less often")
    found = [
        (occurrence, place)
        for place, entry in enumerate(entries)
        for number, seconds in enumerate(times[place])
        for occurrence in _occurrences(entry, seconds, number, _Draw(seed, keys[place]), roster, span_seconds)
    ]
    found.sort(key=lambda pair: (pair[0].seconds, pair[1]))
    return tuple(occurrence for occurrence, _ in found)


def _occurrences(
    entry: Entry, seconds: float, number: int, draw: _Draw, roster: Roster, span_seconds: float
) -> Iterator[Occurrence]:
    action = _with_drawn_devices(entry, number, draw, roster)
    yield Occurrence(seconds, entry, number, action)
    if isinstance(action, Run) and action.for_seconds and seconds + action.for_seconds < span_seconds:
        yield Occurrence(seconds + action.for_seconds, entry, number, Stop(entry.name), is_end=True)


def _repeated(when: When, begin: float, end: float, draw: _Draw) -> Iterator[float]:
    number, at = 0, begin
    while at < end and (number < when.times or not when.times):
        yield at
        number += 1
        if when.every is None or number > MAX_OCCURRENCES:
            return
        # From the first: sums of many fractions would drift.
        at = at + draw(when.every, "every", number) if when.every.is_drawn else begin + number * when.every.least


class _Draw:
    """Draws of one entry."""

    def __init__(self, seed: int, key: str) -> None:
        self._seed = seed
        self._key = np.array([entity_key("entry", key)], dtype=np.uint64)

    def __call__(self, span: Span, what: str, number: int) -> float:
        """A time within a span, in whole milliseconds."""
        if not span.is_drawn:
            return span.least
        return round(span.least + (span.most - span.least) * self.share(what, number), 3)

    def share(self, what: str, number: int) -> float:
        """A number in [0, 1)."""
        return float(uniform(self._seed, self._key, what, number)[0])


def _keys(entries: Sequence[Entry]) -> list[str]:
    """What draws of each entry depend on: its name, else its words and the number of the equal ones before it."""
    counts: dict[str, int] = {}
    keys = []
    for entry in entries:
        words = entry.name or repr((entry.when, entry.words))
        keys.append(f"{words}\0{counts.get(words, 0)}")
        counts[words] = counts.get(words, 0) + 1
    return keys


def _in_order(entries: Sequence[Entry], by_name: Mapping[str, int]) -> list[int]:
    """The places of the entries, each behind the one after which it occurs."""
    order: dict[int, None] = {}
    places = {entry: place for place, entry in enumerate(entries)}
    waiting: dict[int, None]
    for entry in entries:
        place, waiting = places[entry], {}
        while place not in order:
            if place in waiting:
                names = " after ".join(entries[place_before].name for place_before in waiting)
                raise Impossible(entry, f"occurs after itself: {names}")
            waiting[place] = None
            after = entries[place].when.after
            if not after:
                break
            if after not in by_name:
                raise Impossible(entries[place], f"no entry is called {after!r}")
            place = by_name[after]
        order |= dict.fromkeys(reversed(waiting))
    return list(order)


def _with_drawn_devices(entry: Entry, number: int, draw: _Draw, roster: Roster) -> Action:
    """The action, with a device in the place of each ``any``, and a node in the place of the node ``any``."""
    match entry.action:
        case Inject(fault):
            node, devices = _drawn(entry, fault.node, fault.devices, number, draw, roster)
            is_same = (node, devices) == (fault.node, fault.devices)
            return entry.action if is_same else Inject(replace(fault, node=node, devices=devices))
        case Run(workload, seconds):
            node, devices = _drawn(entry, workload.node, workload.devices, number, draw, roster)
            is_same = (node, devices) == (workload.node, workload.devices)
            return entry.action if is_same else Run(replace(workload, node=node, devices=devices), seconds)
        case action:
            return action


def _drawn(
    entry: Entry, node: str, words: tuple[str, ...], number: int, draw: _Draw, roster: Roster
) -> tuple[str, tuple[str, ...]]:
    everything = roster.whole or roster
    if node == ANY:
        node = everything.shown[int(draw.share("node", number) * len(everything.shown))].name

    def drawn(place: int, word: str) -> str:
        before, slash, last = word.rpartition("/")
        if last != ANY:
            return word
        try:
            found = resolve((f"{before}/all" if slash else "all",), everything, node)
        except Refused as refusal:
            raise Impossible(entry, f"devices: {refusal.text}") from None
        return everything.unit_name(int(found[int(draw.share(f"device {place}", number) * len(found))]))

    return node, tuple(drawn(place, word) for place, word in enumerate(words))


def overlaps(occurrences: Iterable[Occurrence]) -> Iterator[tuple[Occurrence, Occurrence]]:
    """Pairs of occurrences that ask for the same fault of the same devices at the same time: the first, and the second.

    What the seed draws may meet by chance; that is no mistake.
    """
    until: dict[tuple[str, ...], tuple[float, Occurrence]] = {}
    for each in occurrences:
        if not isinstance(each.action, Inject) or each.action != each.entry.action or each.entry.when.at is None:
            continue
        fault = each.action.fault
        if fault.probability < 1.0 or not fault.duration_seconds:
            continue
        begin = each.seconds + fault.start_seconds
        end, before = until.get(fault.words, (0.0, each))
        if begin < end - 1e-6:
            yield before, each
        until[fault.words] = begin + fault.duration_seconds, each


def planned_ends(occurrences: Sequence[Occurrence]) -> list[float | None]:
    """When what each occurrence starts is to end, in seconds since the start.

    :returns: None for what starts nothing, and for what lasts on as far as the timeline says.
    """
    ends: list[float | None] = [None] * len(occurrences)
    # The next time after an occurrence at which the faults of an entry are cleared, and workloads are stopped.
    clears: dict[str, float] = {}
    stops: dict[str, float] = {}
    for place in range(len(occurrences) - 1, -1, -1):
        each = occurrences[place]
        begin, name = each.seconds, each.entry.name
        match each.action:
            case Clear(entry):
                clears[entry] = begin
            case Stop(entry) if not each.is_end:
                stops[entry] = begin
            case Run(workload, for_seconds):
                found = [stops[word] for word in (ALL, name, workload.name) if word in stops]
                ends[place] = min([begin + for_seconds, *found] if for_seconds else found, default=None)
            case Inject(fault):
                found = [clears[word] for word in (ALL, name) if word in clears]
                if fault.duration_seconds or _is_momentary(fault):
                    lasts = 0.0 if _is_momentary(fault) else fault.duration_seconds
                    found.append(begin + fault.start_seconds + lasts)
                ends[place] = min(found, default=None)
    return ends


def _is_momentary(fault: FaultSpec) -> bool:
    """Whether a fault is over after the tick in which it starts."""
    if fault.every_seconds or fault.probability < 1:
        return False
    kind = KINDS[fault.kind]
    return not is_lasting(kind, effect_of(kind, kind.values(fault.values)))


class IRunControl(Interface):
    """What a timeline changes besides the fleet."""

    def reconfigure(number: int) -> None:
        """Use a configuration of the scenario, from the next tick on.

        :raises Refused: if that is not possible.
        """

    def set_speed(speed: float) -> None:
        """Change the speed of the clock."""


class Played(NamedTuple):
    """What has become of an occurrence.

    :ivar ids: of the workload or the faults that it concerned.
    :ivar problem: why it was not possible; empty if it was.
    """

    occurrence: Occurrence
    ids: tuple[str, ...]
    problem: str = ""


class Player:
    """Applies the occurrences of a timeline, each in the tick in which it is due.

    :param on_played: called with each occurrence.
    :ivar names: the names of the entries that workloads and faults come from, by their ids.
    :ivar played: how many occurrences have been applied or refused.
    """

    def __init__(
        self,
        fleet: Fleet,
        occurrences: Sequence[Occurrence],
        control: IRunControl,
        on_played: Callable[[Played], None] = lambda played: None,
    ) -> None:
        self._fleet = fleet
        self.occurrences = occurrences
        self._control = control
        self._on_played = on_played
        self.played = 0
        self.names: dict[str, str] = {}
        self._faults: dict[str, list[str]] = defaultdict(list)
        #: The workloads of entries by the name of these, which may be empty; each with its occurrence.
        self._workloads: dict[str, list[tuple[Occurrence, str]]] = defaultdict(list)

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to play."""
        return self.played == len(self.occurrences)

    def apply_due(self) -> None:
        """Apply what is due during the fleet's current tick: it takes effect in the next one."""
        tick_seconds = self._fleet.spec.tick_seconds
        # A time that is a whole number of ticks belongs to the tick that begins then.
        end = (self._fleet.state.tick + 1) * tick_seconds - 1e-6
        while self.played < len(self.occurrences) and self.occurrences[self.played].seconds < end:
            occurrence = self.occurrences[self.played]
            self.played += 1
            try:
                played = Played(occurrence, self._apply(occurrence))
            except Refused as refusal:
                played = Played(occurrence, (), f"{refusal.where}: {refusal.text}" if refusal.where else refusal.text)
            self._on_played(played)

    def _apply(self, occurrence: Occurrence) -> tuple[str, ...]:
        """Apply an occurrence; the ids of what it concerned.

        :raises Refused: if it is not possible.
        """
        fleet, entry = self._fleet, occurrence.entry
        match occurrence.action:
            case Run(workload):
                workload_id = workload_id_of(fleet.apply(StartWorkload(workload)).sequence)
                self._workloads[entry.name].append((occurrence, workload_id))
                self.names[workload_id] = entry.name
                return (workload_id,)
            case Inject(fault):
                fault_id = fault_id_of(fleet.apply(InjectFault(fault)).sequence)
                self._faults[entry.name].append(fault_id)
                self.names[fault_id] = entry.name
                return (fault_id,)
            case Clear(name):
                return self._clear(name)
            case Stop(name):
                return self._stop(occurrence, name)
            case Reconfigure(number):
                self._control.reconfigure(number)
                return ()
            case Speed(speed):
                self._control.set_speed(speed)
                return ()

    def _clear(self, name: str) -> tuple[str, ...]:
        standing = {fault.fault_id: None for fault in self._fleet.faults.standing()}
        found = tuple(standing if name == ALL else [each for each in self._faults[name] if each in standing])
        if found:
            self._fleet.apply(ClearFaults(found))
        return found

    def _stop(self, occurrence: Occurrence, name: str) -> tuple[str, ...]:
        fleet = self._fleet
        started = self._workloads[name]
        if occurrence.is_end:
            entry, number = occurrence.entry, occurrence.number
            begun = self._workloads[entry.name]
            ids = [workload_id for other, workload_id in begun if other.entry is entry and other.number == number]
        elif name == ALL:
            ids = [workload_id for of_entry in self._workloads.values() for _, workload_id in of_entry]
        else:
            ids = [workload_id for _, workload_id in started] or list(fleet.workloads.find(name))
        by_id = fleet.workloads.by_id
        found = tuple(fleet.intake.not_ending([workload_id for workload_id in ids if workload_id in by_id]))
        if found:
            reason = "stopped by the scenario"
            fleet.apply(StopWorkloads(found, reason))
        return found
