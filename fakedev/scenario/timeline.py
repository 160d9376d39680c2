"""When what happens: entries become occurrences with their times and devices, and how long each is to last.

An entry occurs at a time, or after another entry; once, again and again, or at times that the seed draws. What is drawn
depends on the seed, the words of the entry and the number of the occurrence alone: an entry more changes no other one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fakedev.scenario.entries import ALL, ANY, NO_TIME, Action, Clear, Entry, Inject, Occurrence, Run, Span, Stop, When
from fakedev.sim.entities.randomness import uniform
from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.selectors import resolve
from fakedev.sim.faults.effects import effect_of, is_lasting
from fakedev.spec.errors import Refused
from fakedev.spec.fault import FaultSpec
from fakedev.spec.fault_kinds import KINDS
from fakedev.spec.shards import entity_key

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
        times[place] = [each for begin in begins for each in _repeated(when, begin, end, draw)]
        if not times[place]:
            raise Impossible(entry, f"never occurs before the end, {end:g} s after the start")
        count += len(times[place])
        if count > MAX_OCCURRENCES:
            raise Impossible(entry, f"with it there are more than {MAX_OCCURRENCES} occurrences: repeat it less often")
    found = [
        (each, place)
        for place, entry in enumerate(entries)
        for number, seconds in enumerate(times[place])
        for each in _occurrences(entry, seconds, number, _Draw(seed, keys[place]), roster, span_seconds)
    ]
    found.sort(key=lambda pair: (pair[0].seconds, pair[1]))
    return tuple(each for each, _ in found)


def _occurrences(
    entry: Entry, seconds: float, number: int, draw: _Draw, roster: Roster, span_seconds: float
) -> Iterator[Occurrence]:
    action = _with_drawn_devices(entry, number, draw, roster)
    yield Occurrence(seconds, entry, number, action)
    if isinstance(action, Run) and action.for_seconds and seconds + action.for_seconds < span_seconds:
        yield Occurrence(seconds + action.for_seconds, entry, number, Stop(entry.name), is_end=True)


def _repeated(when: When, begin: float, end: float, draw: _Draw) -> Iterator[float]:
    """The times of an entry, from the first to the end."""
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
                names = " after ".join(entries[each].name for each in waiting)
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
    """Whether a fault is over after the tick in which it strikes."""
    if fault.every_seconds or fault.probability < 1:
        return False
    kind = KINDS[fault.kind]
    return not is_lasting(kind, effect_of(kind, kind.values(fault.values)))
