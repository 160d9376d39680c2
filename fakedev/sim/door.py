"""The one door: whatever changes a fleet is an event that is checked here, stamped and told to the journal.

What the randomness of events is keyed by: the same in every shard that is sent the same event.

Sequence numbers are not: a shard is sent other events than the whole fleet. An event's tick and words are, and how
many like it came before in that tick: whoever is sent one of two that name the same devices is sent the other, too.
"""

from __future__ import annotations

from collections.abc import Callable

from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.entities.state import State
from fakedev.sim.events import (
    ChangeClock,
    ClearFault,
    DropWorkload,
    Event,
    InjectFault,
    Reload,
    Stamped,
    StartWorkload,
    StopWorkload,
)
from fakedev.sim.faults.faults import Faults
from fakedev.sim.journal import NO_DEVICES, Happenings, happening_of
from fakedev.sim.reload import check_can_reload
from fakedev.sim.wall_clock import WallClock
from fakedev.sim.workloads.configured import ConfiguredWork
from fakedev.sim.workloads.intake import Intake


class EventKeys:
    """How often events with the same words were taken in a tick."""

    def __init__(self) -> None:
        self._tick = -1
        self._taken: dict[str, int] = {}

    def key(self, tick: int, *words: str) -> str:
        """The key of an event that is not taken yet.

        :param words: what it is, and the devices that it names.
        """
        if tick != self._tick:
            self._tick, self._taken = tick, {}
        alike = "\0".join([str(tick), *words])
        return f"{alike}\0{self._taken.get(alike, 0)}"

    def took(self, key: str) -> None:
        """The event of that key was taken; empty: one without randomness."""
        if key:
            alike = key.rpartition("\0")[0]
            self._taken[alike] = self._taken.get(alike, 0) + 1


class Door:
    """Takes events; each takes effect in the tick after the one that it comes in, in order of arrival.

    :param intake, faults, base, clock: what events change.
    :param happenings, journal: are told of every event that was accepted, in order.
    """

    def __init__(
        self, intake: Intake, faults: Faults, base: ConfiguredWork, clock: WallClock, happenings: Happenings,
        journal: Callable[[Stamped], None],
    ) -> None:  # fmt: skip
        self._intake = intake
        self._faults = faults
        self._base = base
        self._clock = clock
        self._happenings = happenings
        self._journal = journal
        self._sequence = 0
        self._event_keys = EventKeys()
        self._coming: CompiledFleet | None = None

    def take(self, event: Event, state: State, compiled: CompiledFleet) -> Stamped:
        """Take an event.

        :param state, compiled: the fleet as it is.
        :raises Refused: when it cannot be; nothing is changed or recorded then.
        """
        sequence, key = self._sequence + 1, ""
        concerned = NO_DEVICES
        match event:
            case StartWorkload(workload):
                key = self._event_keys.key(state.tick, workload.name, workload.node, *workload.devices)
                concerned = self._intake.accept(workload_id_of(sequence), workload, key).devices
            case StopWorkload(workload_id, reason):
                self._intake.stop(workload_id, reason)
            case DropWorkload(workload_id):
                self._intake.drop(workload_id)
            case InjectFault(fault):
                key = self._event_keys.key(state.tick, fault.kind, fault.node, *fault.devices)
                made = self._faults.made(fault_id_of(sequence), fault, key)
                self._faults.add(made)
                concerned = made.devices
            case ClearFault(fault_id):
                self._faults.clear(fault_id)
            case ChangeClock():
                self._clock.change(event, state.tick)
            case Reload(coming):
                self._base.reserve(*self.check_can_reload(compiled, coming))
                coming.moves_from(compiled.roster)
                self._coming = coming
        self._sequence = sequence
        self._event_keys.took(key)
        stamped = Stamped(state.tick, sequence, event)
        self._journal(stamped)
        self._happenings.note(happening_of(stamped, state.seconds), concerned)
        return stamped

    def check_can_reload(self, compiled: CompiledFleet, coming: CompiledFleet) -> tuple[int, int]:
        """Whether a fleet can become another: how many workloads and faults of the configuration begin with it.

        :raises Refused: when it cannot.
        """
        check_can_reload(compiled.spec, coming)
        return self._base.check_room(coming.spec)

    def coming(self) -> CompiledFleet | None:
        """What the fleet goes over to now; None: it stays as it is."""
        coming, self._coming = self._coming, None
        return coming


def fault_id_of(sequence: int) -> str:
    """The id of the fault that the event of that sequence number injected."""
    return f"f{sequence}"


def workload_id_of(sequence: int) -> str:
    """The id of the workload that the event of that sequence number started."""
    return f"w{sequence}"
