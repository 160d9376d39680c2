"""The fleet: one state, one door for whatever changes it (:mod:`fakedev.sim.door`), one tick at a time.

A tick, in its order (each step is array operations over the whole fleet):
1. workloads that came or went since the last tick begin or leave; after a reload the fleet goes over to its new shape;
   workloads come by themselves (:mod:`fakedev.sim.workloads.churn`);
2. what the workloads ask of every device over the tick, from their profiles and noise
   (:mod:`fakedev.sim.workloads.demand`);
3. all quantities of the devices, from that (:mod:`fakedev.sim.devices.relations`), and what is counted of them
   (:mod:`fakedev.sim.tallies.tallies`);
4. workloads whose end or limit fell into the tick, or who lost a device, get their verdict and leave.
An event that arrives during tick n takes effect in tick n + 1, in order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.door import Door
from fakedev.sim.entities.carry_over import Moves
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.roster import RosterNode
from fakedev.sim.entities.state import Level, State
from fakedev.sim.events import Event, Stamped
from fakedev.sim.faults.faults import Faults
from fakedev.sim.faults.pages import NodeTroubles
from fakedev.sim.faults.shown import ExporterFaults
from fakedev.sim.journal import Happening, Happenings, coming_by_itself, ending, no_op
from fakedev.sim.levels import DEVICE, UNIT, Levels, first_levels, moved_levels, next_levels, shown_levels
from fakedev.sim.links.advance import advanced
from fakedev.sim.links.levels import link_history
from fakedev.sim.reload import choose_devices, without_base, without_devices, without_places
from fakedev.sim.tallies.tallies import Tallies
from fakedev.sim.wall_clock import WallClock
from fakedev.sim.workloads.configured import ConfiguredWork
from fakedev.sim.workloads.endings import Endings
from fakedev.sim.workloads.intake import Intake
from fakedev.sim.workloads.labels import DeviceLabels
from fakedev.sim.workloads.running import Workloads
from fakedev.sim.workloads.workload import Verdict
from fakedev.spec.errors import Refused
from fakedev.spec.fault_kinds import Scope
from fakedev.spec.fleet import FleetSpec

#: Tick 0 shows the first instant: the mean over so many seconds.
_INSTANT_SECONDS: Final = 1e-6


def discard_record(stamped: Stamped) -> None:
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
        journal: Callable[[Stamped], None] = discard_record,
        wall_per_tick: float | None = None,
        tell: Callable[[Happening], None] = no_op,
    ) -> None:
        self._use(CompiledFleet(spec))
        #: Where devices went when the fleet went over to another configuration last.
        self.moves: Moves | None = None
        self.workloads = Workloads(spec.seed, self.compiled.keys, self.compiled.capacity)
        self._labels = DeviceLabels(self.roster, spec.seed)
        self.happenings = Happenings(self.roster, tell)
        compiled = self.compiled
        self._endings = Endings(self.roster, self.workloads, compiled.device_limits)
        self.faults = Faults(spec.seed, compiled.fault_rules)
        self._clock = WallClock(spec.epoch_seconds, spec.tick_seconds if wall_per_tick is None else wall_per_tick)
        self.intake = Intake(self.workloads, self._labels.attribution, self.faults, compiled.admission)
        self._base = ConfiguredWork(self.intake, self.faults)
        self._door = Door(self.intake, self.faults, self._base, self._clock, self.happenings, journal)
        self._base.start_workloads(spec.base)
        self._base.start_faults(spec.faults)
        self.troubles = NodeTroubles(self.faults, self.roster)
        self._exporter_faults = ExporterFaults(self.roster.parts, spec.epoch_seconds)
        self.intake.let_through(0, 0.0)
        demand = self.workloads.demand(0, 0.0, _INSTANT_SECONDS)
        levels = first_levels(compiled, demand)
        #: What exporters count of what the devices report.
        self.tallies = Tallies(spec.tallies, self.roster, compiled.quantities)
        self.tallies.note(levels[DEVICE], None, None, self._relations.conditions, 0.0)
        self.state = self.shown = self._state_of(0, self.tallies.shown(levels))

    def _use(self, compiled: CompiledFleet) -> None:
        self.compiled, self.spec, self.roster = compiled, compiled.spec, compiled.roster
        self._relations = compiled.relations

    def _state_of(self, tick: int, levels: Levels) -> State:
        seconds = tick * self.spec.tick_seconds
        return State(tick, seconds, self.due_seconds(tick), levels, self._labels.latest)

    def __getattr__(self, name: str) -> Floats:
        """A quantity of the devices by its name, as ``fleet.power_watts``: shape (devices,)."""
        state = self.__dict__.get("state")
        if state is not None and name in state.levels[DEVICE].arrays:
            array: Floats = state.levels[DEVICE].arrays[name]
            return array
        raise AttributeError(f"a fleet has no quantity or attribute {name!r}")

    def due_seconds(self, tick: int) -> float:
        """The wall time at which a tick is due, in seconds since 1970."""
        return self._clock.due_seconds(tick)

    # -- the door ---------------------------------------------------------------------------------

    def apply(self, event: Event) -> Stamped:
        """Take an event; it takes effect in the next tick.

        :raises Refused: when it cannot be; nothing is changed or recorded then.
        """
        return self._door.take(event, self.state, self.compiled)

    def check_can_reload(self, coming: CompiledFleet) -> tuple[int, int]:
        """Whether the fleet can become another: how many workloads and faults of the configuration begin with it.

        :raises Refused: when it cannot.
        """
        return self._door.check_can_reload(self.compiled, coming)

    # -- the tick ---------------------------------------------------------------------------------

    def advance(self) -> list[Verdict]:
        """Do one tick.

        :returns: a verdict for each workload that was stopped or is over.
        """
        tick_seconds = self.spec.tick_seconds
        start, end = self.state.seconds, (self.state.tick + 1) * tick_seconds
        self.intake.let_through(self.state.tick, start)
        coming = self._door.coming()
        if coming is not None:
            self._apply_reload(coming, coming.moves_from(self.roster), start)
        past = self.state.levels
        for workload in self.compiled.churn.let_in(self.intake, self._labels.attribution, self.state):
            self.happenings.note(coming_by_itself(workload, self.state.tick, start), workload.devices)
        pace = self.compiled.pace(past[DEVICE]) if self.workloads.count_work else {}
        demand = self.workloads.demand(self.state.tick + 1, start, end, pace)
        faults = self.faults.advance(start, end)
        links = advanced(link_history(past), past[DEVICE], faults, has_moved=self.faults.has_moved)
        if faults is not None:
            demand = faults.on(demand)
            if self.faults.has_moved:
                self.troubles.update()
                self._labels.attribution.release(self.faults.stale())
        if (faults is not None and self.faults.has_moved) or links.up is not link_history(past).up:
            self._relations.live_in(faults, links)
        levels = next_levels(self.compiled, past, demand, tick_seconds, faults, links)
        over = self._endings.of_tick(levels[UNIT], past[UNIT], faults, end)
        self.intake.end(over)
        self.intake.let_through(self.state.tick, end)
        self._labels.note(past[UNIT], levels[UNIT])
        self._labels.change(self.tallies.note(levels[DEVICE], past[DEVICE], faults, self._relations.conditions, end))
        self.state = self.shown = self._state_of(self.state.tick + 1, self.tallies.shown(levels))
        seen = self._exporter_faults.shown(levels[UNIT], past[UNIT], self.faults, start)
        if seen is not levels[UNIT]:
            levels = self.tallies.shown(
                shown_levels(self.roster.parts, seen, levels), self.faults.active(Scope.SERIES)
            )
            self.shown = self._state_of(self.state.tick, levels)
        verdicts = self.intake.told() + list(over.values())
        self._note(past[UNIT], verdicts)
        return verdicts

    def _note(self, past: Level, verdicts: Sequence[Verdict]) -> None:
        """What happened in the tick that is over."""
        tick, seconds = self.state.tick, self.state.seconds
        self.happenings.note_faults(tick, seconds, self.faults.changes)
        self.happenings.note_devices(tick, seconds, past, self.state.levels[UNIT], self.faults)
        for verdict in verdicts:
            cause = self._endings.causes.get(verdict.workload_id, "")
            self.happenings.note(ending(tick, seconds, verdict, cause), verdict.devices)

    def _apply_reload(self, coming: CompiledFleet, moves: Moves, now_seconds: float) -> None:
        """From here on the fleet is made by another configuration; everything that lives on is found by its name."""
        self._base.reserve(0, 0)
        self.moves = moves
        all_base = self._base.workload_ids
        gone, new_base = self._base.keep_workloads(coming.spec.base)
        moved_out = without_places(self.workloads, coming, self._base.workload_ids)
        self._base.left(moved_out)
        over = without_base(self.workloads, gone)
        over += without_base(self.workloads, moved_out, "this shard has none of its devices any more")
        self.intake.end_and_tell(over + without_devices(self.workloads, self.roster, moves.closed, all_base))
        self.intake.let_through(self.state.tick, now_seconds)
        past, before = self.state.levels, self.compiled
        self._use(coming)
        chosen = choose_devices(self.workloads, coming, self._base.workload_ids)
        self.workloads.move(
            moves.units, {each.workload.workload_id for each in chosen}, coming.keys, coming.capacity,
            coming.quantities, self.state.tick,
        )  # fmt: skip
        self._endings = Endings(self.roster, self.workloads, coming.device_limits)
        self._labels = self._labels.moved(self.roster, moves, chosen)
        self.intake.move(moves, self._labels.attribution, coming.admission)
        self._relations.change_conditions(moves.conditions(before.relations.conditions))
        levels = moved_levels(coming, past, before, moves, self.spec.epoch_seconds + now_seconds)
        self.tallies.move(moves, self.spec.tallies, self.roster, coming.quantities)
        self._reload_with_faults(moves)
        self._exporter_faults.move(moves.units, self.roster.parts, levels[UNIT])
        self.happenings.move(self.roster, moves.units, self.state.tick)
        self.state = self.shown = self._state_of(self.state.tick, self.tallies.shown(levels))
        self._base.start_workloads(new_base)
        self.intake.let_through(self.state.tick, now_seconds)

    def _reload_with_faults(self, moves: Moves) -> None:
        gone, begins = self._base.keep_faults(self.spec.faults)
        for fault_id in gone:
            self.faults.clear_if_there(fault_id)
        named_anew = self._base.fault_ids | self.intake.brought_by(self._base.workload_ids)
        self.faults.move(moves.units.new_of, self.compiled.fault_rules, named_anew)
        self._base.start_faults(begins, gone)
        self.troubles = NodeTroubles(self.faults, self.roster)

    # -- what others ask ----------------------------------------------------------------------------

    def facts(self, node: RosterNode) -> list[dict[str, str]]:
        """The facts of each device of a node, those that workloads bring (pod, ...) and values (xid) among them."""
        return self._labels.facts(node, self.state.levels[UNIT])

    def shared_facts(self, node: RosterNode) -> list[list[dict[str, str]]]:
        """As :meth:`facts`, for each device those of each container on it."""
        return self._labels.shared_facts(node, self.state.levels[UNIT])

    def part_facts(self, node: RosterNode) -> list[tuple[int, dict[str, str]]]:
        """Each part of a node's devices, as a unit, with its facts: its device's, and its own."""
        return self._labels.part_facts(node, self.state.levels[UNIT])

    def shared_part_facts(self, node: RosterNode) -> list[tuple[int, list[dict[str, str]]]]:
        """As :meth:`part_facts`, for each part those of each container on it."""
        return self._labels.shared_part_facts(node, self.state.levels[UNIT])

    def labels_version(self, node: RosterNode, *, is_shared: bool = False) -> int:
        """A number that changes whenever one of :meth:`facts` of the node does, or of :meth:`shared_facts`."""
        return self._labels.version(node, is_shared=is_shared)

    def quantity_of(self, metric: str) -> str:
        """The quantity that a metric shows, named as an identity or a person does.

        :raises Refused: when no device has it.
        """
        quantity = self.compiled.admission.metric(metric).quantity
        if quantity not in self.compiled.quantities:
            raise Refused("unknown-name", f"no metric {metric!r}", "metric")
        return quantity

    def quantity_names(self) -> list[str]:
        """Quantities that some device of the fleet has."""
        return sorted(self.compiled.quantities)
