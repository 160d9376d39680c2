"""The fleet: one state, one door for all changes (:mod:`fakedev.fleet.door`), one tick at a time.

Each step of a tick is a few array operations over the whole fleet:
1. Workloads that were accepted or stopped since the last tick start or end; a reload gives the fleet its new
   configuration; churn starts workloads (:mod:`fakedev.fleet.workloads.churn`).
2. The workloads' profiles and noise give their demand on every device (:mod:`fakedev.fleet.workloads.demand`).
3. The demand gives all quantities of the devices (:mod:`fakedev.fleet.devices.relations`), and these the tallies
   (:mod:`fakedev.fleet.tallies`).
4. Workloads with an end, a crossed limit or a lost device get their verdict and end.
An event that arrives during tick n takes effect in tick n + 1, in order of arrival.

A tick is made in steps, so that a long one can pause between two of them. Who uses the fleet then completes the tick
first: nobody sees half a tick.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Final

import numpy as np

from fakedev.base.errors import Refused
from fakedev.base.steps import AT_ONCE, Steps, result_of
from fakedev.fleet.budget import Budget
from fakedev.fleet.cluster.lifecycle import Around, SimulatedCluster
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.devices.reports import reports_of_boards
from fakedev.fleet.door import Door, WallClock
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.reindex import FleetReindex
from fakedev.fleet.entities.state import Level, State, same_arrays
from fakedev.fleet.events import Event, Stamped
from fakedev.fleet.faults.faults import Faults
from fakedev.fleet.faults.page_faults import ExporterFaults, NodePageFaults
from fakedev.fleet.faults.per_tick import FaultTick, Report
from fakedev.fleet.journal import FleetJournal, Tell, entry_of_start, no_op
from fakedev.fleet.levels import DEVICE, UNIT, Levels, first_levels, next_levels, reindexed_levels, shown_levels
from fakedev.fleet.links.advance import advanced
from fakedev.fleet.links.link_levels import LinkHistory, link_history
from fakedev.fleet.past import Past, When
from fakedev.fleet.racks.racks import NO_BOUNDS
from fakedev.fleet.spec.fault_kinds import Scope
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.spec.limits import RecordHead, key_of_limit
from fakedev.fleet.tallies import Tallies
from fakedev.fleet.workloads.configured import (
    NO_STARTS,
    ConfiguredWork,
    choose_devices,
    ended_with_configuration,
    without_closed_devices,
    without_devices_here,
)
from fakedev.fleet.workloads.endings import Endings
from fakedev.fleet.workloads.intake import Intake
from fakedev.fleet.workloads.owners import DeviceLabels
from fakedev.fleet.workloads.running import Workloads
from fakedev.fleet.workloads.workload import Verdict, Workload

#: Tick 0 shows the first instant: the mean over this many seconds.
_INSTANT_SECONDS: Final = 1e-6


def discard_record(stamped: Stamped) -> None:
    """Record nothing."""


class Fleet:
    """The simulated devices and the workloads on them.

    :param record: receives every accepted event, in order.
    :param wall_per_tick: wall seconds between two ticks, for the timestamps of State.
    :param tell: receives the entries of the journal, in order.
    :param compiled: of this specification; None: it is made.
    :ivar state: the true state, for limits and answers; a new one each tick.
    :ivar shown: the state that pages show: differs from ``state`` where exporters have faults.
    :ivar clock: the wall times of ticks.
    :ivar labels: the facts of devices and parts.
    :ivar budget: what workloads and faults take of the limits.
    :ivar past: the last workloads that ended, and the last faults that are over.
    :ivar moves: the new positions of the devices at the last reload or change of nodes; None: there was none.
    :ivar source: of the last reload; None: there was none.
    """

    def __init__(
        self,
        spec: FleetSpec,
        record: Callable[[Stamped], None] = discard_record,
        wall_per_tick: float | None = None,
        tell: Tell = no_op,
        compiled: CompiledFleet | None = None,
    ) -> None:
        self._use(CompiledFleet(spec) if compiled is None else compiled)
        self.moves: FleetReindex | None = None
        self.source: RecordHead | None = None
        self.workloads = Workloads(spec.seed, self.compiled.keys, self.compiled.capacity, spec.epoch_seconds)
        self.labels = DeviceLabels(self.roster, spec.seed)
        self.journal = FleetJournal(self.roster, tell)
        self.past = Past(self.journal.names)
        compiled = self.compiled
        self._endings = Endings(self.roster, self.workloads, compiled.device_limits)
        self.budget = Budget(spec.limits)
        self.faults = Faults(spec.seed, compiled.fault_rules, self.budget)
        self.clock = WallClock(spec.epoch_seconds, spec.tick_seconds if wall_per_tick is None else wall_per_tick)
        self.intake = Intake(
            self.workloads, self.labels.attribution, self.faults, compiled.admission, self.budget
        )
        self._configured = ConfiguredWork(self.intake, self.faults, self.budget)
        self._door = Door(self.intake, self.faults, self._configured, self.clock, self.journal, record)
        self._configured.start_workloads(spec.base)
        self._configured.start_faults(spec.faults)
        self.page_faults = NodePageFaults(self.faults, self.roster)
        self._exporter_faults = ExporterFaults(self.roster.parts, spec.epoch_seconds)
        self.intake.apply_changes(0, 0.0)
        self.cluster: SimulatedCluster | None = None
        self._begin_cluster(0, 0.0)
        demand = self.workloads.demand(0, 0.0, _INSTANT_SECONDS)
        levels = first_levels(compiled, demand, 0)
        #: Counts that exporters keep of what the devices report.
        self.tallies = self._first_tallies(levels, 0)
        #: The error codes that boards reported in the last tick, also boards whose drivers report none.
        self.reports: list[Report] = []
        self._set_state(0, self.tallies.shown(levels))

    def _use(self, compiled: CompiledFleet) -> None:
        self.compiled, self.spec, self.roster = compiled, compiled.spec, compiled.roster
        self._relations = compiled.relations

    def _first_tallies(self, levels: Levels, tick: int) -> Tallies:
        tallies = Tallies(self.spec.tallies, self.roster, self.compiled.quantities)
        seconds = tick * self.spec.tick_seconds
        tallies.note([], levels[DEVICE], None, None, self._relations.conditions, seconds, self.clock.due_seconds(tick))
        return tallies

    def _set_state(self, tick: int, levels: Levels) -> None:
        self.labels.level = levels[UNIT]
        seconds = tick * self.spec.tick_seconds
        self.state = self.shown = State(tick, seconds, self.clock.due_seconds(tick), levels, self.labels.latest)

    def outside(self) -> tuple[object, object]:
        """Who gets the events and the entries of the journal: ``record`` and ``tell``."""
        return self._door.record, self.journal.tell

    def pause(self, complete: Callable[[], object]) -> None:
        """Hide all attributes between two steps of a tick: the first use of the fleet completes the tick.

        :param complete: calls :meth:`resume`, and does all other steps of the tick.
        """
        self.__dict__ = {"_paused": self.__dict__, "_complete": complete}

    def resume(self) -> None:
        """Show the attributes again: the next step of the tick follows."""
        self.__dict__ = self.__dict__["_paused"]

    @property
    def is_paused(self) -> bool:
        """Whether the fleet is between two steps of a tick."""
        return "_paused" in self.__dict__

    def __getattr__(self, name: str) -> Floats:
        """A quantity of the devices by its name, as ``fleet.power_watts``: shape (devices,)."""
        if self.is_paused:
            self.__dict__["_complete"]()
            completed: Floats = getattr(self, name)
            return completed
        state = self.__dict__.get("state")
        if state is not None and name in state.levels[DEVICE].arrays:
            array: Floats = state.levels[DEVICE].arrays[name]
            return array
        raise AttributeError(f"a fleet has no quantity or attribute {name!r}")

    # -- the door ---------------------------------------------------------------------------------

    def apply(self, event: Event, peer: object | None = "") -> Stamped:
        """Accept an event; it takes effect in the next tick.

        :param peer: who sends it, for the limits of each peer; empty: no single peer; None: a replay, for which the
            limits do not hold.
        :raises Refused: if it is not possible; nothing is changed or recorded then.
        """
        return self._door.apply(event, self.state, self.compiled, peer)

    @property
    def is_reloading(self) -> bool:
        """Whether a reload, or a change of nodes, takes effect with the next tick."""
        return self._door.is_reloading

    def check_can_reload(self, following: CompiledFleet) -> tuple[int, int]:
        """How many workloads and faults a reload with another configuration would start.

        :raises Refused: if the reload is not possible.
        """
        return self._door.check_can_reload(self.compiled, following)

    # -- the tick ---------------------------------------------------------------------------------

    def advance(self) -> list[Verdict]:
        """Do one tick.

        :returns: a verdict for each workload that was stopped or ended.
        """
        return result_of(self.tick())

    def tick(self) -> Steps[list[Verdict]]:
        """The steps of one tick, of which each takes some milliseconds at most; returns as :meth:`advance`.

        Between two steps nobody else may use the fleet, see :meth:`pause`.
        """
        start, end = self.state.seconds, (self.state.tick + 1) * self.spec.tick_seconds
        while not self.is_settled:
            self.settle(AT_ONCE // 5)
            yield
        yield from self._changes(start)
        past = self.state.levels
        faults, levels = yield from self._next_levels(past, start, end)
        yield
        if self.tallies.count_work:
            self.tallies.note_work(
                self.workloads, levels[DEVICE], past[DEVICE], self.spec.tick_seconds, self.faults.frozen()
            )
            yield
        over = yield from self._endings.of_tick(levels[UNIT], past[UNIT], faults, end)
        yield from self.intake.end(list(over))
        if over:
            self._configured.note_ends(over, end)
            if self.cluster is not None:
                self.cluster.note_ends(over, self.workloads)
        yield from self.intake.changes(self.state.tick, end)
        yield from self._show(levels, past, faults, start, end)
        verdicts = yield from self.intake.verdicts()
        verdicts += over.values()
        if self.faults.changes:
            yield
        yield from self._note(past[UNIT], verdicts)
        return verdicts

    def _changes(self, start: float) -> Steps[None]:
        """Start and end what was accepted since the last tick, and what starts without events."""
        yield from self.intake.changes(self.state.tick, start)
        following, source, is_reset = self._door.take_reload()
        if is_reset:
            self._configured.forget()
        if following is not None:
            self.source = source or self.source
            self._apply_reload(following, following.reindex_from(self.roster), start)
            yield
        if is_reset:
            self._begin_again(start)
            yield
        if self.compiled.churn.nodes or self._configured.waits or self.cluster is not None:
            yield from self._start_without_events(start)

    def _next_levels(self, past: Levels, start: float, end: float) -> Steps[tuple[FaultTick | None, Levels]]:
        """The effects of faults in the tick, and the levels at its end."""
        pace = self.compiled.pace(past[DEVICE]) if self.workloads.follows_pace else {}
        demand = yield from self.workloads.demand_steps(self.state.tick + 1, start, end, pace)
        yield
        faults = self.faults.advance(start, end)
        if faults is not None:
            yield
        racks, bounds, has_failed = self._relations.racks, NO_BOUNDS, False
        if racks is not None:
            of_devices = None if faults is None else faults.of_devices()
            has_failed = racks.strike(past[DEVICE], faults)
            bounds = racks.bounds(past[DEVICE], of_devices, end - start)
        links = yield from advanced(link_history(past), past[DEVICE], faults,
                                    has_moved=self.faults.has_moved or has_failed,
                                    falling=self._relations.falling(past[DEVICE]))  # fmt: skip
        if faults is not None:
            demand = faults.on(demand)
            yield
            if self.faults.has_moved:
                self.page_faults.update()
                self.labels.attribution.release(self.faults.stale())
        are_changed = (faults is not None and self.faults.has_moved) or links.up is not link_history(past).up
        before = self._relations.conditions
        pairs = ((bounds.most, before.shared_watts), (bounds.least, before.held_watts))
        if are_changed or any(now is not was and not same_arrays(now, was) for now, was in pairs):
            yield
            self._relations.update_conditions(faults, links, bounds)
            yield
        return faults, next_levels(
            self.compiled, past, demand, self.spec.tick_seconds, faults, links, self.state.tick + 1
        )

    def _show(
        self, levels: Levels, past: Levels, faults: FaultTick | None, start: float, end: float
    ) -> Steps[None]:
        """Use the levels of the tick as the state."""
        self.labels.note(past[UNIT], levels[UNIT])
        conditions = self._relations.conditions
        shown = self.shown.levels
        self.reports = reports_of_boards(levels[DEVICE].arrays, past[DEVICE], faults, conditions.lost)
        if self.tallies.are_shown:
            due = self.clock.due_seconds(self.state.tick + 1)
            entities = self.tallies.note(self.reports, levels[DEVICE], past[DEVICE], faults, conditions, end, due)
            self.labels.change(entities)
            yield
            self._set_state(self.state.tick + 1, self.tallies.shown(levels))
        else:
            self._set_state(self.state.tick + 1, levels)
        if self.faults.by_id or self.faults.changes or self._exporter_faults.is_active:
            yield
            yield from self._show_exporter_faults(levels, past[UNIT], shown, start)

    def _show_exporter_faults(self, levels: Levels, past: Level, before: Levels, start_seconds: float) -> Steps[None]:
        """Replace the shown state, if exporters show something else than the devices.

        :param before: what they showed a tick ago.
        """
        seen = yield from self._exporter_faults.shown(
            levels[UNIT], past, self.faults, start_seconds, self.clock.due_seconds(self.state.tick - 1)
        )
        if seen is not levels[UNIT]:
            yield
            shown, active = shown_levels(self.roster.parts, seen, levels), self.faults.active(Scope.SERIES)
            self.shown = replace(self.state, levels=self.tallies.shown(shown, active, before))

    def _start_without_events(self, now_seconds: float) -> Steps[None]:
        """Start the work that churn brings, and work of the configuration that starts again."""
        if self.compiled.churn.nodes:
            arrived = self.compiled.churn.start_arrivals(self.intake, self.labels.attribution, self.state)
            self._note_starts(arrived, "churn", now_seconds)
        if self._configured.waits and (again := self._configured.start_again(now_seconds)):
            self._note_starts(again, "restart", now_seconds)
            self.intake.apply_changes(self.state.tick, now_seconds)
        if self.cluster is not None:
            started = yield from self.cluster.advance(self._around(self.state.tick, now_seconds))
            self._note_starts(started, "cluster", now_seconds)

    def _around(self, tick: int, now_seconds: float) -> Around:
        """What the cluster acts on."""
        lost = self.state.levels[UNIT].arrays.get("lost") if tick else None
        mask = np.zeros(self.roster.parts.unit_count, dtype=np.bool_) if lost is None else lost > 0
        return Around(self.intake, self.faults, self.workloads, mask, tick, now_seconds)

    def _begin_cluster(self, tick: int, now_seconds: float) -> None:
        """Start the cluster of the configuration, with the jobs that are at work already."""
        self.cluster = None
        if self.spec.cluster is not None:
            self.cluster = SimulatedCluster(self.spec, self.roster)
            result_of(self.cluster.begin(self._around(tick, now_seconds)))

    def _note_starts(self, workloads: Sequence[Workload], cause: str, seconds: float) -> None:
        """Note in the journal that workloads start which no event starts."""
        entries = [entry_of_start(workload, cause, self.state.tick, seconds) for workload in workloads]
        self.journal.note(entries, [workload.devices for workload in workloads])

    def restarts_at(self, workload_id: str) -> float | None:
        """When work of the configuration that has ended starts again, in simulated seconds; None: it does not."""
        return self._configured.restarts_at(workload_id)

    def _note(self, past: Level, verdicts: Sequence[Verdict]) -> Steps[None]:
        """Write the journal of the tick."""
        tick, seconds = self.state.tick, self.state.seconds
        if self.faults.changes:
            yield from self.journal.note_faults(tick, seconds, self.faults.changes)
        yield from self.journal.note_devices(tick, seconds, past, self.state.levels[UNIT], self.faults)
        lost_on = self._endings.lost_on
        causes = self._endings.causes | self._causes_of_losses(lost_on, past) if lost_on else self._endings.causes
        if verdicts:
            yield
            self.journal.note_ends(tick, seconds, verdicts, causes)
            yield
        if verdicts or self.faults.changes:
            when = When(tick, seconds, self.state.wall_seconds)
            self.past.note_ends(when, verdicts, causes)
            self.past.note_faults(when, self.faults.changes, self.faults.by_id)

    def _causes_of_losses(self, lost_on: Mapping[str, int], past: Level) -> dict[str, str]:
        """The faults by which units were lost in the tick, by what ended on them."""
        signs = self.faults.signs(past, self.state.levels[UNIT])
        behind = self.faults.behind_each("lost", list(lost_on.values()), signs)
        found = [",".join(fault.fault_id for fault in causes) for causes in behind]
        return {ended: cause for ended, cause in zip(lost_on, found, strict=True) if cause}

    def _apply_reload(self, following: CompiledFleet, moves: FleetReindex, now_seconds: float) -> None:
        """Use another configuration; all that continues is found by its name."""
        self._configured.reserve(NO_STARTS)
        self.budget.limits = following.spec.limits
        self.moves = moves
        all_ids = self._configured.workload_ids
        removed, added = self._configured.keep_workloads(following.spec.base)
        elsewhere = without_devices_here(self.workloads, following, self._configured.workload_ids)
        self._configured.note_elsewhere(elsewhere)
        ended = ended_with_configuration(self.workloads, removed)
        ended += ended_with_configuration(self.workloads, elsewhere, "this shard has none of its devices any more")
        ended += without_closed_devices(self.workloads, self.roster, moves.closed, all_ids)
        ended += self._follow_cluster(following, [workload.workload_id for workload in ended])
        self.intake.end_with_verdicts(ended)
        self.intake.apply_changes(self.state.tick, now_seconds)
        past, before = self.state.levels, self.compiled
        self._use(following)
        chosen = choose_devices(self.workloads, following, self._configured.workload_ids)
        self.workloads.reindex(
            moves.units, {choice.workload.workload_id for choice in chosen}, following.keys, following.capacity,
            following.quantities, self.state.tick,
        )  # fmt: skip
        self._endings = Endings(self.roster, self.workloads, following.device_limits)
        self.labels = self.labels.reindexed(self.roster, moves, chosen)
        self.intake.reindex(moves, self.labels.attribution, following.admission)
        self._relations.change_conditions(moves.conditions(before.relations.conditions))
        levels = reindexed_levels(following, past, before, moves, self.spec.epoch_seconds + now_seconds)
        self._relations.use_links(link_history(levels))
        self.tallies.move(moves, self.spec.tallies, self.roster, following.quantities)
        self._reload_with_faults(moves)
        self._exporter_faults.move(moves.units, self.roster.parts, levels[UNIT], self.faults)
        self.past.settle()
        self.journal.reindex(self.roster, moves.units, self.state.tick)
        self._set_state(self.state.tick, self.tallies.shown(levels))
        self._configured.start_workloads(added)
        self.intake.apply_changes(self.state.tick, now_seconds)

    def _follow_cluster(self, following: CompiledFleet, ended: Collection[str]) -> list[Verdict]:
        """Go on with another cluster, or none; verdicts on the workloads that end with it."""
        if following.spec.cluster is None:
            before, self.cluster = self.cluster, None
            ids = set(before.workload_ids if before is not None else ()).difference(ended)
            return ended_with_configuration(self.workloads, sorted(ids))
        if self.cluster is None:
            self.cluster = SimulatedCluster(following.spec, following.roster)
        else:
            self.cluster.note_ends(ended, self.workloads)
            self.cluster.use(following.spec, following.roster)
        return []

    def _reload_with_faults(self, moves: FleetReindex) -> None:
        removed, added = self._configured.keep_faults(self.spec.faults)
        for fault_id in removed:
            self.faults.clear_if_there(fault_id)
        configured = self._configured.fault_ids | self.intake.fault_ids_of(self._configured.workload_ids)
        self.faults.move(moves.units.new_of, self.compiled.fault_rules, configured)
        self._configured.start_faults(added, removed)
        self.page_faults = NodePageFaults(self.faults, self.roster)

    def _begin_again(self, now_seconds: float) -> None:
        """Forget all that has happened to the devices, and start what the configuration starts.

        Workloads accepted after the reset request are restarted as well.
        """
        tick, compiled = self.state.tick, self.compiled
        self._configured.reserve(NO_STARTS)
        before = self.labels
        self.labels = DeviceLabels(self.roster, self.spec.seed, before.latest + 1, before.latest_shared + 1)
        self._configured.start_workloads(self._configured.keep_workloads(self.spec.base)[1])
        self.intake.start_again(self.labels.attribution)
        self._configured.start_faults(self._configured.keep_faults(self.spec.faults)[1])
        self.intake.apply_changes(tick, now_seconds)
        self._begin_cluster(0, now_seconds)
        self.workloads.forget_crowds()
        self._endings = Endings(self.roster, self.workloads, compiled.device_limits)
        self.page_faults = NodePageFaults(self.faults, self.roster)
        self._exporter_faults = ExporterFaults(self.roster.parts, self.spec.epoch_seconds)
        self._relations.update_conditions(None, LinkHistory(self.roster.links))
        demand = self.workloads.demand(0, now_seconds, now_seconds + _INSTANT_SECONDS)
        levels = first_levels(compiled, demand, tick, self.spec.epoch_seconds + now_seconds)
        self.tallies = self._first_tallies(levels, tick)
        self.journal.begin_again(tick)
        self._set_state(tick, self.tallies.shown(levels))

    def settle(self, most: int | None = None) -> bool:
        """Finish deferred journal and limit bookkeeping for ended workloads.

        No answer depends on when that is: only time does.

        :param most: maximum workloads in this call; None: all.
        :returns: whether there are more.
        """
        return self.journal.settle(most) | self.past.settle(most) | self.budget.settle(most)

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to :meth:`settle`."""
        return self.journal.is_settled and self.past.is_settled and self.budget.is_settled

    # -- queries ----------------------------------------------------------------------------

    def quantity_of(self, metric: str) -> str:
        """The quantity of a metric, by the metric's name in an identity or the quantity's name or alias.

        :raises Refused: if no device has it.
        """
        quantity = self.compiled.admission.known_metric(metric).quantity
        if quantity not in self.compiled.quantities:
            raise Refused("unknown-name", f"no metric {metric!r}", "metric")
        return quantity

    def limits(self) -> dict[str, tuple[int, int]]:
        """What is used of each limit, and what it allows, by its key in the configuration."""
        limits = self.budget.limits
        used = {"workloads": self.intake.count, "faults": len(self.faults.by_id), **self.budget.used()}
        return {key_of_limit(field.name): (used[field.name], getattr(limits, field.name)) for field in fields(limits)}

    def quantity_names(self) -> list[str]:
        """The quantities of the fleet's devices."""
        return sorted(self.compiled.quantities)
