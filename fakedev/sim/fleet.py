"""The fleet: one state, one door for whatever changes it, one tick at a time.

A tick, in its order (each step is array operations over the whole fleet):
1. workloads that came or went since the last tick begin or leave; after a reload the fleet goes over to its new shape;
2. what the workloads ask of every device over the tick, from their profiles and noise (:mod:`fakedev.sim.demand`);
3. all quantities of the devices, from that (:mod:`fakedev.sim.relations`);
4. workloads whose end or limit fell into the tick, or who lost a device, get their verdict and leave.
An event that arrives during tick n takes effect in tick n + 1, in order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from fakedev.sim.attribution import Attribution
from fakedev.sim.endings import Endings
from fakedev.sim.errors import Refused
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
from fakedev.sim.faults.disguises import Disguises
from fakedev.sim.faults.faults import Faults
from fakedev.sim.faults.pages import NodeTroubles
from fakedev.sim.faults.spec import FaultSpec
from fakedev.sim.going_over import check_can_go_over, find_devices, kept, without_base, without_devices
from fakedev.sim.happenings import Happening, Happenings, ending, happening_of, tell_nobody
from fakedev.sim.label_versions import LabelVersions
from fakedev.sim.machinery import Machinery
from fakedev.sim.moves import Moves
from fakedev.sim.randomness import Floats
from fakedev.sim.roster import RosterNode
from fakedev.sim.spec import FleetSpec, WorkloadSpec
from fakedev.sim.state import Level, State
from fakedev.sim.value_labels import note_changes, value_facts
from fakedev.sim.workload import Verdict, Workload
from fakedev.sim.workloads import Workloads

#: Workloads that a fleet takes, whether they run or wait for the next tick.
MOST_WORKLOADS: Final = 100_000
#: Tick 0 shows the first instant: the mean over so many seconds.
_INSTANT_SECONDS: Final = 1e-6


def keep_nothing(stamped: Stamped) -> None:
    """A journal that keeps nothing."""


class Fleet:
    """The simulated devices and the workloads on them.

    :param journal: is told every event that was accepted, in order.
    :param wall_per_tick: wall seconds between two ticks, for the timestamps of State.
    :param tell: is told everything that happens, in order.
    :ivar state: what every limit and answer is made of; a new one each tick.
    :ivar shown: what every page is made of: the same, but for what exporters that are at fault show.
    :ivar faults, troubles, happenings: what is wrong, with which pages, and what happened.
    """

    def __init__(
        self,
        spec: FleetSpec,
        journal: Callable[[Stamped], None] = keep_nothing,
        wall_per_tick: float | None = None,
        tell: Callable[[Happening], None] = tell_nobody,
    ) -> None:
        self._journal = journal
        self._use(Machinery(spec))
        self._coming: Machinery | None = None
        #: Where devices went when the fleet went over to another configuration last.
        self.moves: Moves | None = None
        self.workloads = Workloads(spec.seed, self.machinery.keys, self.machinery.capacity)
        self._label_versions, self._shared_versions = LabelVersions(), LabelVersions()
        self.happenings = Happenings(self.roster, tell)
        self._attribution = Attribution(self.roster, self._label_versions, self._shared_versions)
        machinery = self.machinery
        self._endings = Endings(self.roster, self.workloads, machinery.device_limits)
        self.faults = Faults(
            spec.seed, self.roster, machinery.keys, machinery.quantities, machinery.admission.metric, spec.tick_seconds
        )
        self._clock = ChangeClock(spec.epoch_seconds, spec.tick_seconds if wall_per_tick is None else wall_per_tick)
        self._clock_tick = 0
        self._sequence = 0
        self._starting: dict[str, Workload] = {}
        self._ending: set[str] = set()
        self._told: list[Verdict] = []
        #: The workloads of the configuration, with the ids that they were given.
        self._base: list[tuple[str, WorkloadSpec]] = []
        self._take_base(spec.base)
        #: The faults of the configuration, with their ids.
        self._base_faults: list[tuple[str, FaultSpec]] = []
        self._take_faults(spec.faults)
        self.troubles = NodeTroubles(self.faults, self.roster)
        self._disguises = Disguises(self.roster.device_count, spec.epoch_seconds)
        self.state = self.shown = self._first_state()

    def _use(self, machinery: Machinery) -> None:
        self.machinery, self.spec, self.roster = machinery, machinery.spec, machinery.roster
        self._relations, self._admission = machinery.relations, machinery.admission

    def _take_base(self, base: Sequence[WorkloadSpec]) -> None:
        for workload in base:
            workload_id, again = f"base-{workload.name}", 1
            while workload_id in self.workloads.by_id:
                again += 1
                workload_id = f"base-{workload.name}-{again}"
            self._accept(workload_id, workload)
            self._base.append((workload_id, workload))

    def _take_faults(self, faults: Sequence[FaultSpec]) -> None:
        for fault in faults:
            number = 1
            while f"config-{number}" in self.faults.by_id:
                number += 1
            self.faults.add(self.faults.made(f"config-{number}", fault))
            self._base_faults.append((f"config-{number}", fault))

    def _first_state(self) -> State:
        self._let_in_and_out(0.0)
        demand = self.workloads.demand(0, 0.0, _INSTANT_SECONDS)
        level = self._relations.device_level(demand, None, 0.0)
        return self._state_of(0, level)

    def _state_of(self, tick: int, level: Level) -> State:
        seconds = tick * self.spec.tick_seconds
        return State(tick, seconds, self.due_seconds(tick), {"device": level}, self._label_versions.latest)

    def __getattr__(self, name: str) -> Floats:
        """A quantity of the devices by its name, as ``fleet.power_watts``: shape (devices,)."""
        state = self.__dict__.get("state")
        if state is not None and name in state.levels["device"].arrays:
            array: Floats = state.levels["device"].arrays[name]
            return array
        raise AttributeError(f"a fleet has no quantity or attribute {name!r}")

    def due_seconds(self, tick: int) -> float:
        """The wall time at which a tick is due, in seconds since 1970."""
        return self._clock.wall_seconds + (tick - self._clock_tick) * self._clock.wall_per_tick

    # -- the door ---------------------------------------------------------------------------------

    def apply(self, event: Event) -> Stamped:
        """Take an event; it takes effect in the next tick.

        :raises Refused: when it cannot be; nothing is changed or recorded then.
        """
        sequence = self._sequence + 1
        match event:
            case StartWorkload(workload):
                self._accept(workload_id_of(sequence), workload)
            case StopWorkload(workload_id, reason):
                self._stop(workload_id, reason)
            case DropWorkload(workload_id):
                self._known(workload_id)
                self._leave(workload_id)
            case InjectFault(fault):
                self.faults.add(self.faults.made(fault_id_of(sequence), fault))
            case ClearFault(fault_id):
                self.faults.clear(fault_id)
            case ChangeClock():
                self._clock, self._clock_tick = event, self.state.tick
            case Reload(machinery):
                check_can_go_over(self.spec, machinery)
                self._coming = machinery
        self._sequence = sequence
        stamped = Stamped(self.state.tick, sequence, event)
        self._journal(stamped)
        self.happenings.note(happening_of(stamped, self.state.seconds))
        return stamped

    def _accept(self, workload_id: str, spec: WorkloadSpec) -> None:
        if len(self.workloads.by_id) + len(self._told) >= MOST_WORKLOADS:
            raise Refused("full", f"there are {MOST_WORKLOADS} workloads already")
        devices = self._admission.check(spec)
        workload = Workload(workload_id, spec, devices, self._admission.limits(spec))
        self.workloads.accept(workload)
        self._starting[workload_id] = workload

    def _known(self, workload_id: str) -> Workload:
        workload = self.workloads.by_id.get(workload_id)
        if workload is None:
            raise Refused("unknown-name", f"no workload {workload_id!r}", "id")
        return workload

    def _stop(self, workload_id: str, reason: str) -> None:
        workload = self._known(workload_id)
        if self.is_ending(workload_id):
            raise Refused("unknown-name", f"workload {workload_id!r} is stopped already", "id")
        self._told.append(workload.verdict(0, reason))
        self._leave(workload_id)

    def _leave(self, workload_id: str) -> None:
        if self._starting.pop(workload_id, None) is not None:
            # It never ran: what it holds is freed now, and no tick will have seen it.
            self.workloads.forget(workload_id)
        else:
            self._ending.add(workload_id)

    # -- the tick ---------------------------------------------------------------------------------

    def advance(self) -> list[Verdict]:
        """Do one tick.

        :returns: a verdict for each workload that was stopped or is over.
        """
        tick_seconds = self.spec.tick_seconds
        start, end = self.state.seconds, (self.state.tick + 1) * tick_seconds
        self._let_in_and_out(start)
        if self._coming is not None:
            self._go_over(self._coming, start)
        pace = self._relations.pace(self.state.levels["device"]) if self.workloads.count_work else {}
        demand = self.workloads.demand(self.state.tick + 1, start, end, pace)
        faults = self.faults.advance(start, end)
        if faults is not None:
            demand = faults.on(demand)
            if self.faults.has_moved:
                self.troubles.update()
                self._attribution.release(self.faults.stale())
                self._relations.change_conditions(faults.conditions(self._relations.inlet_celsius()))
        level = self._relations.device_level(demand, self.state.levels["device"], tick_seconds, faults)
        over = self._endings.of_tick(level, self.state.levels["device"], faults, end)
        self._ending.update(over)
        self._let_in_and_out(end)
        note_changes(self.state.levels["device"], level, self.roster, self._label_versions)
        past = self.state.levels["device"]
        self.state = self.shown = self._state_of(self.state.tick + 1, level)
        seen = self._disguises.shown(level, past, self.faults, start)
        if seen is not level:
            self.shown = self._state_of(self.state.tick, seen)
        told, self._told = self._told, []
        verdicts = told + list(over.values())
        self._note(past, verdicts)
        return verdicts

    def _note(self, past: Level, verdicts: Sequence[Verdict]) -> None:
        """What happened in the tick that is over."""
        tick, seconds = self.state.tick, self.state.seconds
        self.happenings.note_faults(tick, seconds, self.faults.changes)
        self.happenings.note_devices(tick, seconds, past, self.state.levels["device"], self.faults.behind)
        for verdict in verdicts:
            self.happenings.note(ending(tick, seconds, verdict, self._endings.causes.get(verdict.workload_id, "")))

    def _go_over(self, coming: Machinery, now_seconds: float) -> None:
        """From here on the fleet is made by another configuration; everything that lives on is found by its name."""
        self._coming = None
        self.moves = moves = Moves(self.roster, coming.roster)
        stays, new_base = kept(self._base, coming.spec.base)
        base = {workload_id for workload_id, _ in stays}
        over = without_base(self.workloads, [each for each, _ in self._base if each not in base])
        over += without_devices(self.workloads, self.roster, moves.gone, {each for each, _ in self._base})
        self._told += over
        self._ending.update(verdict.workload_id for verdict in over)
        self._let_in_and_out(now_seconds)
        past, before = self.state.levels["device"], self.machinery
        self._use(coming)
        self._base = stays
        running = self.workloads.running()
        for workload in running:
            find_devices(workload, moves, coming, is_base=workload.workload_id in base)
        self.workloads.move(moves, coming.keys, coming.capacity, self.state.tick)
        self._endings = Endings(self.roster, self.workloads, coming.device_limits)
        self._label_versions = LabelVersions(self._label_versions.latest + 1)
        self._shared_versions = LabelVersions(self._shared_versions.latest + 1)
        self._attribution = self._attribution.moved(
            Attribution(self.roster, self._label_versions, self._shared_versions), moves.new_of, running
        )
        self._relations.change_conditions(moves.conditions(before.relations.conditions))
        fresh = self._relations.idle_level(self.spec.epoch_seconds + now_seconds)
        level = moves.level(past, before.quantities, fresh)
        self._go_over_with_faults(moves, level)
        self.happenings.move(self.roster, moves, self.state.tick)
        self.state = self.shown = self._state_of(self.state.tick, level)
        self._take_base(new_base)
        self._let_in_and_out(now_seconds)

    def _go_over_with_faults(self, moves: Moves, level: Level) -> None:
        stays, begins = kept(self._base_faults, self.spec.faults)
        for fault_id, _ in self._base_faults:
            if fault_id not in dict(stays) and fault_id in self.faults.by_id:
                self.faults.clear(fault_id)
        machinery = self.machinery
        self.faults.move(
            moves.new_of, self.roster, machinery.keys, machinery.quantities, machinery.admission.metric, dict(stays)
        )
        self._base_faults = stays
        self._take_faults(begins)
        self.troubles = NodeTroubles(self.faults, self.roster)
        self._disguises.move(moves, level)

    def _let_in_and_out(self, now_seconds: float) -> None:
        if not self._starting and not self._ending:
            return
        started = list(self._starting.values())
        stale = self.faults.stale()
        for workload_id in sorted(self._ending):
            self._attribution.remove(self.workloads.by_id[workload_id], stale)
        for workload in started:
            self._attribution.add(workload)
        self.workloads.change(started, self._ending, self.state.tick if "state" in self.__dict__ else 0, now_seconds)
        self._starting, self._ending = {}, set()

    # -- what others ask ----------------------------------------------------------------------------

    def facts(self, node: RosterNode) -> list[dict[str, str]]:
        """The facts of each device of a node, those that workloads bring (pod, ...) and values (xid) among them."""
        level = self.state.levels["device"]
        facts = self.roster.facts(self.spec.seed, node)
        for position, device in zip(node.devices, facts, strict=True):
            device.update(self._attribution.facts(position), **value_facts(level, position))
        return facts

    def shared_facts(self, node: RosterNode) -> list[list[dict[str, str]]]:
        """As :meth:`facts`, for each device those of each container on it."""
        return [
            [device | holder for holder in self._attribution.all_facts(position)]
            for position, device in zip(node.devices, self.facts(node), strict=True)
        ]

    def labels_version(self, node: RosterNode, *, is_shared: bool = False) -> int:
        """A number that changes whenever one of :meth:`facts` of the node does, or of :meth:`shared_facts`."""
        version = self._label_versions.of(node)
        return version + self._shared_versions.of(node) if is_shared else version

    def is_starting(self, workload_id: str) -> bool:
        """Whether a workload waits for the next tick."""
        return workload_id in self._starting

    @property
    def starting_count(self) -> int:
        """How many workloads wait for the next tick."""
        return len(self._starting)

    def is_ending(self, workload_id: str) -> bool:
        """Whether a workload leaves with the next tick."""
        return workload_id in self._ending

    def quantity_of(self, metric: str) -> str:
        """The quantity that a metric shows, named as an identity or a person does.

        :raises Refused: when no device has it.
        """
        quantity = self._admission.metric(metric).quantity
        if quantity not in self.machinery.quantities:
            raise Refused("unknown-name", f"no metric {metric!r}", "metric")
        return quantity

    def quantity_names(self) -> list[str]:
        """Quantities that some device of the fleet has."""
        return sorted(self.machinery.quantities)


def fault_id_of(sequence: int) -> str:
    """The id of the fault that the event of that sequence number injected."""
    return f"f{sequence}"


def workload_id_of(sequence: int) -> str:
    """The id of the workload that the event of that sequence number started."""
    return f"w{sequence}"
