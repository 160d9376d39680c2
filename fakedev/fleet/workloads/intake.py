"""Accepts, starts and ends workloads: it accepts them at any time, but starts and ends them only between two ticks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from fakedev.base.errors import Refused
from fakedev.base.steps import Steps, result_of, spans
from fakedev.fleet.budget import Budget, cost_of_fault, cost_of_workload
from fakedev.fleet.entities.reindex import FleetReindex
from fakedev.fleet.faults.faults import Faults
from fakedev.fleet.faults.rules import workload_faults
from fakedev.fleet.spec.limits import Limits, check_limit
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.fleet.workloads.admission import Admission
from fakedev.fleet.workloads.owners import Attribution
from fakedev.fleet.workloads.running import Workloads
from fakedev.fleet.workloads.workload import Verdict, Workload, start_row


class Intake:
    """The workloads that start or end before the next tick, and verdicts that are not reported yet.

    :param faults: know the devices that still show an ended workload.
    :param budget: of the workloads and faults.
    """

    def __init__(
        self, workloads: Workloads, attribution: Attribution, faults: Faults, admission: Admission, budget: Budget
    ) -> None:  # fmt: skip
        self._workloads = workloads
        self._faults = faults
        self._starting: dict[str, Workload] = {}
        #: In the order in which they were stopped or ended.
        self._ending: dict[str, Workload] = {}
        self._verdicts: list[Verdict] = []
        #: Workloads that ended before they ran, whose verdicts are not reported yet.
        self._never_ran: list[Workload] = []
        #: Stopped workloads with the reason. Their verdicts are made in the tick: a stop of thousands has no time.
        self._stopped: list[tuple[list[Workload], str]] = []
        self._stopped_count = 0
        self._reserved = 0
        self._budget = budget
        self._faults_of: dict[str, list[str]] = {}
        self._attribution, self._admission = attribution, admission

    def reindex(self, moves: FleetReindex, attribution: Attribution, admission: Admission) -> None:
        """Use the new positions of the units (devices and parts), and admit workloads by the new configuration."""
        self._attribution, self._admission = attribution, admission
        verdicts = result_of(self.verdicts())
        if verdicts:
            followed = moves.units.each_followed([verdict.devices for verdict in verdicts])
            self._verdicts = [verdict._replace(devices=at) for verdict, at in zip(verdicts, followed, strict=True)]

    def accept(
        self, workload_id: str, spec: WorkloadSpec, key: str = "", *, of_configuration: bool = False,
        peer: object | None = None,
    ) -> Workload:  # fmt: skip
        """Accept a workload; :meth:`apply_changes` starts it.

        :param key: of its randomness; empty: its id.
        :param of_configuration: this shard may have none of its devices; then it does not start here.
        :param peer: who starts it, empty for no single peer; None: the limits were checked already.
        :raises Refused: if the fleet cannot run it.
        """
        if peer is not None:
            self.check_room(1)
        devices = self._admission.check(spec, of_configuration=of_configuration)
        if not len(devices):
            return Workload(workload_id, spec, devices)
        faults = []
        if spec.faults:
            if peer is not None:
                self._faults.check_room(len(spec.faults))
            rules = self._faults.rules
            faults = workload_faults(workload_id, spec, rules, key or workload_id, of_configuration=of_configuration)
        spec = self._admission.fitted(spec, devices)
        uses = tuple(replace(use, activities=self._budget.shared(use.activities)) for use in spec.uses)
        spec = replace(spec, activities=self._budget.shared(spec.activities), uses=uses)
        brought = [cost_of_fault(fault.spec, len(fault.devices)) for fault in faults]
        cost = cost_of_workload(spec, len(devices), self._faults.rules.tick_seconds, brought)
        if peer is not None:
            self._budget.check(cost, peer)
        workload = Workload(workload_id, spec, devices, self._admission.limits(spec), key=key, cost=cost, peer=peer)
        workload.row = start_row(workload)
        self._workloads.accept(workload)
        self._budget.add(cost, peer)
        self._starting[workload_id] = workload
        if faults:
            self._faults_of[workload_id] = [fault.fault_id for fault in faults]
            for fault in faults:
                self._faults.add(fault)
        return workload

    def fault_ids_of(self, workload_ids: Iterable[str]) -> set[str]:
        """The ids of the workloads' own faults."""
        return {fault_id for workload_id in workload_ids for fault_id in self._faults_of.get(workload_id, ())}

    def _clear_faults_of(self, workload_id: str) -> None:
        """Clear a workload's own faults, which end with it."""
        for fault_id in self._faults_of.pop(workload_id, ()):
            self._faults.clear_if_there(fault_id)

    def check_room(self, count: int, limits: Limits | None = None) -> None:
        """Check that the fleet has room for some more workloads.

        :param limits: None: those in use.
        :raises Refused: if it has not.
        """
        check_limit("workloads", count, self.count, (limits or self._budget.limits).workloads)

    @property
    def has_room(self) -> bool:
        """Whether the fleet has room for one more workload."""
        return self.count < self._budget.limits.workloads

    @property
    def count(self) -> int:
        """The number of workloads, with those whose verdicts are not reported yet."""
        return len(self._workloads.by_id) + len(self._verdicts) + self._stopped_count + self._reserved

    def reserve(self, count: int) -> None:
        """Keep room for workloads that a reload will start; 0: it has started them."""
        self._reserved = count

    def stop(self, workload_ids: Sequence[str], reason: str) -> None:
        """End workloads before the next tick, with a verdict for each.

        :raises Refused: if one does not exist, or is stopped already; then none is stopped.
        """
        workloads = self._known(workload_ids)
        if not self._ending.keys().isdisjoint(workload_ids):
            stopped = next(workload_id for workload_id in workload_ids if workload_id in self._ending)
            raise Refused("unknown-name", f"workload {stopped!r} is stopped already", "id")
        self._stopped.append((workloads, reason))
        self._stopped_count += len(workloads)
        self._never_ran += self._not_started(workloads)
        self._remove(workload_ids, workloads)

    def stop_all(self, reason: str) -> None:
        """End all workloads before the next tick, but those that end anyway, with a verdict for each."""
        self.stop(self.not_ending(list(self._workloads.by_id)), reason)

    def start_again(self, attribution: Attribution) -> None:
        """Let the running workloads start with the next :meth:`apply_changes`, as if they had not run.

        :param attribution: has no owners yet, and is used from now on.
        """
        running = self._workloads.running()
        ids = {workload.workload_id for workload in running}
        result_of(self._workloads.end(list(ids), result_of(self._workloads.rows_with(ids))))
        for workload in running:
            self._workloads.accept(workload)
        self._starting |= {workload.workload_id: workload for workload in running}
        self._attribution = attribution

    def drop(self, workload_ids: Sequence[str]) -> None:
        """End workloads before the next tick, without a verdict.

        :raises Refused: if one does not exist; then none is ended.
        """
        workloads = self._known(workload_ids)
        self._release(self._not_started(workloads))
        self._remove(workload_ids, workloads)

    def _not_started(self, workloads: Iterable[Workload]) -> list[Workload]:
        return [workload for workload in workloads if workload.workload_id in self._starting] if self._starting else []

    def _release(self, workloads: Iterable[Workload]) -> None:
        """Workloads are gone: give back what they took of the limits."""
        for workload in workloads:
            self._budget.remove(workload.cost, workload.peer)

    def _known(self, workload_ids: Iterable[str]) -> list[Workload]:
        by_id = self._workloads.by_id
        try:
            return [by_id[workload_id] for workload_id in workload_ids]
        except KeyError as unknown:
            raise Refused("unknown-name", f"no workload {unknown.args[0]!r}", "id") from None

    def _remove(self, workload_ids: Sequence[str], workloads: Sequence[Workload]) -> None:
        if self._starting:
            never_ran = [each for each in workload_ids if self._starting.pop(each, None) is not None]
            # No tick has seen them, so that they can be removed now.
            for workload_id in never_ran:
                self._clear_faults_of(workload_id)
            self._workloads.forget(never_ran)
            workloads = [workload for workload in workloads if workload.workload_id in self._workloads.by_id]
            workload_ids = [workload.workload_id for workload in workloads]
        self._ending.update(zip(workload_ids, workloads, strict=True))

    def end(self, workload_ids: Sequence[str]) -> Steps[None]:
        """End running workloads whose verdicts are reported already."""
        for span in spans(len(workload_ids)):
            self._ending.update(zip(workload_ids[span], self._known(workload_ids[span]), strict=True))
            yield

    def end_with_verdicts(self, verdicts: list[Verdict]) -> None:
        """End running workloads; their verdicts are reported with the next tick's."""
        self._verdicts += verdicts
        result_of(self.end([verdict.workload_id for verdict in verdicts]))

    def apply_changes(self, tick: int, now_seconds: float) -> None:
        """See :meth:`changes`: all of them at once."""
        result_of(self.changes(tick, now_seconds))

    def changes(self, tick: int, now_seconds: float) -> Steps[None]:
        """Start the waiting workloads and end those that were stopped.

        :param tick: the last tick that was done.
        """
        if not self._starting and not self._ending:
            return
        started, workloads = list(self._starting.values()), self._workloads
        if self._ending:
            rows = yield from workloads.rows_with(self._ending)
            yield from self._attribution.remove(workloads.holds(rows), self._faults.stale())
            yield
            for workload_id in [each for each in self._ending if each in self._faults_of] if self._faults_of else ():
                self._clear_faults_of(workload_id)
            self._budget.remove_later(list(self._ending.values()))
            yield from workloads.end(list(self._ending), rows)
        if started:
            yield from workloads.start(started, tick, now_seconds)
            yield
            is_new = np.arange(len(workloads.table)) >= len(workloads.table) - len(started)
            holds = workloads.holds(is_new)
            yield
            yield from self._attribution.add(holds, workloads.by_id)
            yield
        self._starting, self._ending = {}, {}

    def verdicts(self) -> Steps[list[Verdict]]:
        """The verdicts that are not reported yet; after this call they count as reported."""
        verdicts: list[Verdict] = []
        for workloads, reason in self._stopped:
            for span in spans(len(workloads)):
                verdicts += [workload.verdict(0, reason) for workload in workloads[span]]
                yield
        verdicts += self._verdicts
        self._verdicts, self._stopped, self._stopped_count = [], [], 0
        self._release(self._never_ran)
        self._never_ran = []
        return verdicts

    @property
    def starting_count(self) -> int:
        """The number of workloads that start before the next tick."""
        return len(self._starting)

    def not_ending(self, workload_ids: Sequence[str]) -> Sequence[str]:
        """The given workloads without those that end before the next tick."""
        return workload_ids if not self._ending else [each for each in workload_ids if each not in self._ending]

    def is_ending(self, workload_id: str) -> bool:
        """Whether a workload ends before the next tick."""
        return workload_id in self._ending
