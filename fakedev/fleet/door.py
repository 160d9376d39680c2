"""The event validator: every change of a fleet, a reload too, is checked, stamped and passed to the record here.

The keys of an event's randomness are the same in every shard that receives the event. They do not contain the
sequence number, because a shard does not receive every event. They contain the tick, the words of the event, and the
number of equal events before it in that tick: a shard that receives one of two events on the same devices receives
both.

What a reload cannot change is here too; `fakedev.fleet.workloads.configured` says which workloads end with it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from fakedev.base.errors import Refused
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.entities.state import State
from fakedev.fleet.events import (
    ChangeClock,
    ChangeNodes,
    ClearFaults,
    DivideBoard,
    DropWorkloads,
    Event,
    InjectFault,
    Reload,
    Reset,
    Stamped,
    StartWorkload,
    StopWorkloads,
    prepare,
    with_nodes_of,
)
from fakedev.fleet.faults.faults import Faults
from fakedev.fleet.journal import NO_DEVICES, FleetJournal, entry_of_event
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.workloads.configured import ConfiguredWork
from fakedev.fleet.workloads.intake import Intake


def check_can_reload(now: FleetSpec, following: CompiledFleet) -> None:
    """Check that a fleet can be reloaded with another configuration.

    Seed, tick, epoch and shard define the history, so that a saved state cannot continue with others either. All else
    that needs a restart is marked at its field (`fakedev.schema.declare.restarts`); only a running program refuses it.

    :raises Refused: if its history could not continue, or a workload of the configuration cannot run.
    """
    for key, before, after in (
        ("seed", now.seed, following.spec.seed),
        ("tick", now.tick_seconds, following.spec.tick_seconds),
        ("epoch", now.epoch_seconds, following.spec.epoch_seconds),
    ):
        if before != after:
            raise Refused("bad-argument", f"fleet.{key} cannot be changed by a reload ({before:g} to {after:g})", key)
    if now.shard != following.spec.shard:
        raise Refused("bad-argument", "fleet.shard cannot be changed by a reload", "shard")
    for workload in following.spec.base:
        following.admission.check(workload, of_configuration=True)


class EventKeys:
    """Counts events with the same words in a tick."""

    def __init__(self) -> None:
        self._tick = -1
        self._counts: Counter[str] = Counter()

    def key(self, tick: int, *words: str) -> str:
        """The key of an event that is not applied yet.

        :param words: its kind, and its device words.
        """
        if tick != self._tick:
            self._tick, self._counts = tick, Counter()
        alike = "\0".join([str(tick), *words])
        return f"{alike}\0{self._counts[alike]}"

    def count(self, key: str) -> None:
        """Count the event with that key; an empty key marks an event without randomness."""
        if key:
            self._counts[key.rpartition("\0")[0]] += 1


#: Changes of the clock whose ticks keep their wall times.
_MAX_CHANGES: Final = 1000


class WallClock:
    """The wall times at which ticks are due, at equal distances since the last change of the clock.

    :param began: wall time of tick 0, in seconds since 1970.
    :param wall_per_tick: wall seconds between two ticks.
    """

    def __init__(self, began: float, wall_per_tick: float) -> None:
        self._change = ChangeClock(began, wall_per_tick)
        self._tick = 0
        #: What was in use before, each with its first tick; the oldest first.
        self._before: deque[tuple[int, ChangeClock]] = deque(maxlen=_MAX_CHANGES)

    def change(self, change: ChangeClock, tick: int) -> None:
        """Change the times of the ticks after ``tick``."""
        self._before.append((self._tick, self._change))
        self._change, self._tick = change, tick

    def due_seconds(self, tick: int) -> float:
        """The wall time at which a tick is due, in seconds since 1970."""
        return self._change.wall_seconds + (tick - self._tick) * self._change.wall_per_tick

    def past_seconds(self, tick: int) -> float:
        """The same of a tick before the last change of the clock, too."""
        spans = (*self._before, (self._tick, self._change))
        first, change = next((span for span in reversed(spans) if span[0] <= tick), spans[0])
        return change.wall_seconds + (tick - first) * change.wall_per_tick


class Door:
    """Accepts events; each takes effect in the next tick, in order of arrival.

    :param intake, faults, configured, clock: events change these.
    :param journal, record: receive every accepted event, in order.
    """

    def __init__(
        self, intake: Intake, faults: Faults, configured: ConfiguredWork, clock: WallClock, journal: FleetJournal,
        record: Callable[[Stamped], None],
    ) -> None:  # fmt: skip
        self._intake = intake
        self._faults = faults
        self._configured = configured
        self._clock = clock
        self._journal = journal
        self.record = record
        self._sequence = 0
        self._event_keys = EventKeys()
        self._following: CompiledFleet | None = None
        self._is_reset = False
        self._source: RecordHead | None = None

    def apply(self, event: Event, state: State, compiled: CompiledFleet, peer: object | None = "") -> Stamped:
        """Check and accept an event.

        :param peer: who sends it, for the limits of each peer; empty: no single peer; None: a replay, for which the
            limits do not hold.
        :raises Refused: if it is not possible; nothing is changed or recorded then.
        """
        sequence, key = self._sequence + 1, ""
        devices = NO_DEVICES
        match event:
            case StartWorkload(workload):
                key = self._event_keys.key(state.tick, workload.name, workload.node, *workload.devices)
                devices = self._intake.accept(workload_id_of(sequence), workload, key, peer=peer).devices
            case StopWorkloads(workload_ids, reason):
                self._intake.stop(workload_ids, reason)
            case DropWorkloads(workload_ids):
                self._intake.drop(workload_ids)
            case InjectFault(fault):
                key = self._event_keys.key(state.tick, fault.kind, fault.node, *fault.devices)
                devices = self._faults.start(fault_id_of(sequence), fault, key, peer).devices
            case ClearFaults(fault_ids):
                self._faults.clear(fault_ids)
            case ChangeClock():
                self._clock.change(event, state.tick)
            case Reload() | ChangeNodes() | DivideBoard():
                self._follow(event, compiled, peer)
            case Reset(reason):
                self._intake.stop_all(reason)
                self._faults.remove_all()
                self._is_reset = True
                self._configured.reserve(self._configured.starts(self._following or compiled, is_reset=True))
        self._sequence = sequence
        self._event_keys.count(key)
        stamped = Stamped(state.tick, sequence, event)
        self.record(stamped)
        self._journal.note([entry_of_event(stamped, state.seconds)], [devices])
        return stamped

    def _follow(self, event: Reload | ChangeNodes | DivideBoard, compiled: CompiledFleet, peer: object | None) -> None:
        """Use another specification from the next tick on.

        What was compiled beforehand may be of other nodes than there are by now: then it is compiled again.

        :raises Refused: if that is not possible.
        """
        base, source = self._following or compiled, self._source
        if not isinstance(event, Reload):
            prepared = event.prepared
            if prepared is None or prepared.base is not base:
                prepared = prepare(base, event)
            following = prepared.compiled
        else:
            following, source = event.compiled, event.source
            spec = with_nodes_of(following.spec, base.spec)
            if spec is not following.spec:
                following = CompiledFleet(spec)
        check_can_reload(compiled.spec, following)
        starts = self._configured.starts(following, is_reset=self._is_reset)
        if peer is not None:
            self._configured.check_room(starts, following.spec.limits)
        self._configured.reserve(starts)
        following.reindex_from(compiled.roster)
        self._following, self._source = following, source

    def check_can_reload(self, compiled: CompiledFleet, following: CompiledFleet) -> tuple[int, int]:
        """How many workloads and faults a reload with another configuration would start.

        :raises Refused: if the reload is not possible.
        """
        check_can_reload(compiled.spec, following)
        starts = self._configured.starts(following, is_reset=self._is_reset)
        self._configured.check_room(starts, following.spec.limits)
        return len(starts.workloads), len(starts.faults)

    @property
    def is_reloading(self) -> bool:
        """Whether a reload takes effect with the next tick."""
        return self._following is not None

    def take_reload(self) -> tuple[CompiledFleet | None, RecordHead | None, bool]:
        """The fleet to continue with in this tick, and the source of a new configuration; None: there is none.

        The last is whether the fleet begins again in this tick.
        """
        following, self._following = self._following, None
        source, self._source = self._source, None
        is_reset, self._is_reset = self._is_reset, False
        return following, source, is_reset


def fault_id_of(sequence: int) -> str:
    """The id of the fault that the event with that sequence number injected."""
    return f"f{sequence}"


def workload_id_of(sequence: int) -> str:
    """The id of the workload that the event with that sequence number started."""
    return f"w{sequence}"
