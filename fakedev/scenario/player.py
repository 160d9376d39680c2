"""Plays a timeline on a fleet: applies what is due before each tick, live and in virtual time alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from fakedev.scenario.entries import ALL, Clear, Inject, Occurrence, Reconfigure, Run, Speed, Stop
from fakedev.sim.door import fault_id_of, workload_id_of
from fakedev.sim.events import (
    ClearFault,
    ClearFaults,
    InjectFault,
    StartWorkload,
    StopWorkload,
    StopWorkloads,
)
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import Refused


class Setting(Protocol):
    """What a timeline changes beside the fleet."""

    def reconfigure(self, number: int) -> None:
        """Use a configuration of the scenario, from the next tick on.

        :raises Refused: if that is not possible.
        """

    def set_speed(self, speed: float) -> None:
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

    :param on_played: told of each occurrence.
    :ivar names: the names of the entries that workloads and faults come from, by their ids.
    :ivar played: how many occurrences have been applied or refused.
    """

    def __init__(
        self,
        fleet: Fleet,
        occurrences: Sequence[Occurrence],
        setting: Setting,
        on_played: Callable[[Played], None] = lambda played: None,
    ) -> None:
        self._fleet = fleet
        self.occurrences = occurrences
        self._setting = setting
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
                self._setting.reconfigure(number)
                return ()
            case Speed(speed):
                self._setting.set_speed(speed)
                return ()

    def _clear(self, name: str) -> tuple[str, ...]:
        by_id = self._fleet.faults.by_id
        ids = by_id if name == ALL else self._faults[name]
        found = tuple(each for each in ids if each in by_id and not by_id[each].is_cleared)
        if found:
            self._fleet.apply(ClearFault(found[0]) if len(found) == 1 else ClearFaults(found))
        return found

    def _stop(self, occurrence: Occurrence, name: str) -> tuple[str, ...]:
        fleet = self._fleet
        started = self._workloads[name]
        if occurrence.is_end:
            entry, number = occurrence.entry, occurrence.number
            begun = self._workloads[entry.name]
            ids = [each for other, each in begun if other.entry is entry and other.number == number]
        elif name == ALL:
            ids = [each for of_entry in self._workloads.values() for _, each in of_entry]
        else:
            ids = [each for _, each in started] or list(fleet.workloads.find(name))
        by_id = fleet.workloads.by_id
        found = tuple(fleet.intake.not_ending([each for each in ids if each in by_id]))
        if found:
            reason = "stopped by the scenario"
            fleet.apply(StopWorkload(found[0], reason) if len(found) == 1 else StopWorkloads(found, reason))
        return found
