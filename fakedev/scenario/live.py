"""A scenario that a running service plays: its timeline at the fleet's speed, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import nsmallest
from typing import Any, Final

from twisted.logger import Logger
from zope.interface import implementer

from fakedev.base.errors import Refused, printable
from fakedev.fleet.fleet import Fleet
from fakedev.scenario.entries import Inject, Occurrence, Run, Scenario
from fakedev.scenario.timeline import IRunControl, Played, Player, planned_ends
from fakedev.web.probes import ReloadFailed

#: Maximum occurrences in one answer: of the past, and of the future.
MOST_SHOWN: Final = 1000
#: The most device words of an occurrence that are described; ``more-devices`` counts the rest.
_MOST_DEVICES: Final = 10
#: The most characters of the words of an entry, which may name many devices.
_MOST_CHARACTERS: Final = 160


@implementer(IRunControl)
class LiveScenario:
    """Plays a scenario on the fleet of a service. Its occurrences are numbered by their order.

    :param set_speed: changes the speed of the clock.
    :param use: uses a configuration of the scenario, by its number; raises ReloadFailed.
    :ivar scenario: what is played.
    """

    log = Logger()

    def __init__(
        self,
        scenario: Scenario,
        fleet: Fleet,
        set_speed: Callable[[float], None],
        use: Callable[[int], None],
    ) -> None:
        self.scenario = scenario
        self._fleet = fleet
        self._player = Player(fleet, scenario.occurrences, self, self._on_played)
        self._set_speed = set_speed
        self._use = use
        self._is_told = False
        self._words = {entry: _shown(entry.words) for entry in scenario.entries}
        self._places = {entry: place for place, entry in enumerate(scenario.entries)}
        self._planned_ends = planned_ends(scenario.occurrences)
        #: What has become of each occurrence that was played, by its number.
        self._played: list[Played] = []
        #: Numbers of occurrences whose workload or fault still exists, by its id; and when the others ended.
        self._lasting: dict[str, int] = {}
        self._ended: dict[int, float] = {}

    def before_tick(self) -> None:
        self._note_ends()
        self._player.apply_due()
        if not self._is_told and self.is_over:
            self._is_told = True
            self.log.info("the scenario {name} is over; the simulation goes on", name=self.scenario.name)

    @property
    def is_over(self) -> bool:
        """Whether its time is over: the simulation goes on."""
        return self._fleet.state.seconds >= self.scenario.span_seconds

    def set_speed(self, speed: float) -> None:
        self._set_speed(speed)

    def reconfigure(self, number: int) -> None:
        try:
            self._use(number)
        except ReloadFailed as failure:
            raise Refused("bad-argument", str(failure)) from None

    def _on_played(self, played: Played) -> None:
        if played.ids and _starts(played.occurrence):
            self._lasting |= dict.fromkeys(played.ids, len(self._played))
        self._played.append(played)
        words = played.occurrence.entry.words
        if played.problem:
            self.log.warn("the scenario could not {words}: {problem}", words=words, problem=played.problem)
        else:
            self.log.info("the scenario: {words}", words=words)

    def _note_ends(self) -> None:
        """Note which workloads and faults have ended, however that came."""
        faults, workloads = self._fleet.faults.by_id, self._fleet.workloads.by_id
        for place in [place for place in self._lasting if place not in faults and place not in workloads]:
            self._ended[self._lasting.pop(place)] = self._fleet.state.seconds

    def progress(self) -> dict[str, Any]:
        """How far it is, in the few values that each frame of the live view has."""
        self._note_ends()
        played, occurrences = self._player.played, self._player.occurrences
        following = occurrences[played] if played < len(occurrences) else None
        return {
            "name": printable(self.scenario.name),
            "span-seconds": self.scenario.span_seconds,
            "is-over": self.is_over,
            "played": played,
            "total": len(occurrences),
            # Grows whenever an occurrence changes its state.
            "changes": played + len(self._ended),
            "next": None if following is None else [following.seconds, self._words_of(following)],
        }

    def describe(self) -> dict[str, Any]:
        """The scenario and its occurrences, as plain values: those that go on, the last ones, and the next."""
        progress = self.progress()
        played = self._player.played
        recent = range(max(0, played - MOST_SHOWN), played)
        # What goes on is shown, however long ago it began.
        older = [lasting for lasting in nsmallest(MOST_SHOWN // 2, self._lasting.values()) if lasting < recent.start]
        recent = recent[len(older) :]
        waiting = range(played, min(played + MOST_SHOWN, progress["total"]))
        return {
            **progress,
            "seconds": self._fleet.state.seconds,
            "occurrences": [self.described(number) for numbers in (older, recent, waiting) for number in numbers],
        }

    def numbers(self) -> list[int]:
        """The numbers of all occurrences: current ones, future ones, then the past ones, the newest first."""
        self._note_ends()
        lasting, played = set(self._lasting.values()), self._player.played
        before = (place for place in range(played - 1, -1, -1) if place not in lasting)
        return [*sorted(lasting), *range(played, len(self._player.occurrences)), *before]

    def described(self, number: int) -> dict[str, Any]:
        """An occurrence as plain values."""
        occurrence = self._player.occurrences[number]
        entry = occurrence.entry
        devices, node = _where(occurrence)
        more = len(devices) - _MOST_DEVICES
        state, problem = self._state(number)
        return {
            "number": number,
            "seconds": occurrence.seconds,
            "entry": self._places[entry],
            "name": entry.name,
            "kind": "stop" if occurrence.is_end else entry.kind,
            "is-end": occurrence.is_end,
            "words": self._words_of(occurrence),
            "devices": devices[:_MOST_DEVICES],
            **({"more-devices": more} if more > 0 else {}),
            "node": node,
            "lasts-seconds": occurrence.lasts_seconds,
            "ends-seconds": None if problem else self._ended.get(number, self._planned_ends[number]),
            "state": state,
            **({"problem": problem} if problem else {}),
            **({"ids": self._played[number].ids} if number < len(self._played) and not problem else {}),
        }

    def texts(self, number: int) -> tuple[str, ...]:
        """Where a search looks in an occurrence."""
        occurrence = self._player.occurrences[number]
        devices, node = _where(occurrence)
        return (occurrence.entry.name, self._words_of(occurrence), *devices, node, *self._state(number))

    def _state(self, number: int) -> tuple[str, str]:
        """The state of an occurrence, and why it was not possible."""
        if number >= len(self._played):
            return "waiting", ""
        played = self._played[number]
        if played.problem:
            return "refused", printable(played.problem)
        is_on = _starts(played.occurrence) and any(lasting_id in self._lasting for lasting_id in played.ids)
        return ("active" if is_on else "done"), ""

    def _words_of(self, occurrence: Occurrence) -> str:
        entry = occurrence.entry
        return _shown(f"stop {entry.name or entry.words}") if occurrence.is_end else self._words[entry]


def _starts(occurrence: Occurrence) -> bool:
    """Whether an occurrence starts something that lasts."""
    return isinstance(occurrence.action, Run | Inject)


def _where(occurrence: Occurrence) -> tuple[Sequence[str], str]:
    """The device words of an occurrence with those that were drawn, and the node of words without one."""
    match occurrence.action:
        case Run(workload):
            return workload.devices, workload.node
        case Inject(fault):
            return fault.devices, fault.node
    return (), ""


def _shown(words: str) -> str:
    """The words of an entry on one line, which is not too long."""
    words = printable(words)
    return words if len(words) <= _MOST_CHARACTERS else f"{words[: _MOST_CHARACTERS - 1]}…"
