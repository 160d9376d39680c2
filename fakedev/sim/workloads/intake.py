"""How workloads get in and out: they are taken at any time, but begin and leave only between two ticks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fakedev.sim.entities.carry_over import Moves
from fakedev.sim.faults.faults import Faults
from fakedev.sim.faults.rules import brought_by
from fakedev.sim.workloads.admission import Admission
from fakedev.sim.workloads.ownership import Attribution
from fakedev.sim.workloads.running import Workloads
from fakedev.sim.workloads.workload import Verdict, Workload
from fakedev.spec.errors import Refused
from fakedev.spec.fleet import WorkloadSpec

#: Workloads that a fleet takes, whether they run or wait for the next tick.
MAX_WORKLOADS: Final = 100_000


class Intake:
    """The workloads that wait to begin, and those that are to leave.

    :param workloads: those inside.
    :param faults: know on which devices a workload that is over seems to go on.
    """

    def __init__(self, workloads: Workloads, attribution: Attribution, faults: Faults, admission: Admission) -> None:
        self._workloads = workloads
        self._faults = faults
        self._starting: dict[str, Workload] = {}
        self._ending: set[str] = set()
        self._told: list[Verdict] = []
        self._reserved = 0
        self._brought: dict[str, list[str]] = {}
        self._attribution, self._admission = attribution, admission

    def move(self, moves: Moves, attribution: Attribution, admission: Admission) -> None:
        """The units (devices and parts) have new places: from here on whoever comes gets in by these."""
        self._attribution, self._admission = attribution, admission
        if self._told:
            followed = moves.units.each_followed([each.devices for each in self._told])
            self._told = [each.on(devices) for each, devices in zip(self._told, followed, strict=True)]

    def accept(
        self, workload_id: str, spec: WorkloadSpec, key: str = "", *, of_configuration: bool = False
    ) -> Workload:
        """Take a workload; it begins when :meth:`let_through` is called.

        :param key: what its randomness is keyed by; empty: its id.
        :param of_configuration: there may be none of its devices in this shard; then it does not come.
        :raises Refused: when the fleet cannot take it.
        """
        self.check_room(1)
        devices = self._admission.check(spec, of_configuration=of_configuration)
        if not len(devices):
            return Workload(workload_id, spec, devices)
        self._faults.check_room(len(spec.faults))
        rules = self._faults.rules
        faults = brought_by(workload_id, spec, rules, key or workload_id, of_configuration=of_configuration)
        spec = self._admission.fitted(spec, devices)
        workload = Workload(workload_id, spec, devices, self._admission.limits(spec), key=key)
        self._workloads.accept(workload)
        self._starting[workload_id] = workload
        if faults:
            self._brought[workload_id] = [fault.fault_id for fault in faults]
        for fault in faults:
            self._faults.add(fault)
        return workload

    def brought_by(self, workload_ids: Iterable[str]) -> set[str]:
        """The ids of the faults that workloads have brought."""
        return {fault_id for workload_id in workload_ids for fault_id in self._brought.get(workload_id, ())}

    def _clear_brought(self, workload_id: str) -> None:
        """The faults that a workload has brought are over with it."""
        for fault_id in self._brought.pop(workload_id, ()):
            self._faults.clear_if_there(fault_id)

    def check_room(self, count: int) -> None:
        """Whether so many workloads more may come.

        :raises Refused: when they may not.
        """
        taken = len(self._workloads.by_id) + len(self._told) + self._reserved
        if taken + count > MAX_WORKLOADS:
            text = f"{taken} workloads are there, and {count} more would come: at most {MAX_WORKLOADS} can be"
            raise Refused("full", f"there are {MAX_WORKLOADS} workloads already" if count == 1 else text)

    @property
    def has_room(self) -> bool:
        """Whether one more may come."""
        return len(self._workloads.by_id) + len(self._told) + self._reserved < MAX_WORKLOADS

    def reserve(self, count: int) -> None:
        """Keep room for workloads that will come with another configuration; 0: they have come."""
        self._reserved = count

    def stop(self, workload_id: str, reason: str) -> None:
        """A workload is to leave, with a verdict.

        :raises Refused: when there is none such, or it leaves already.
        """
        workload = self._known(workload_id)
        if self.is_ending(workload_id):
            raise Refused("unknown-name", f"workload {workload_id!r} is stopped already", "id")
        self._told.append(workload.verdict(0, reason))
        self._leave(workload_id)

    def drop(self, workload_id: str) -> None:
        """A workload is to leave, and nobody asks what came of it.

        :raises Refused: when there is none such.
        """
        self._known(workload_id)
        self._leave(workload_id)

    def _known(self, workload_id: str) -> Workload:
        workload = self._workloads.by_id.get(workload_id)
        if workload is None:
            raise Refused("unknown-name", f"no workload {workload_id!r}", "id")
        return workload

    def _leave(self, workload_id: str) -> None:
        if self._starting.pop(workload_id, None) is not None:
            # It never ran: what it holds is freed now, and no tick will have seen it.
            self._clear_brought(workload_id)
            self._workloads.forget(workload_id)
        else:
            self._ending.add(workload_id)

    def end(self, workload_ids: Iterable[str]) -> None:
        """Running workloads are over: their verdicts are known."""
        self._ending.update(workload_ids)

    def end_and_tell(self, verdicts: list[Verdict]) -> None:
        """Running workloads are over; their verdicts are told with those of the next tick."""
        self._told += verdicts
        self.end(verdict.workload_id for verdict in verdicts)

    def let_through(self, tick: int, now_seconds: float) -> None:
        """Whoever waits begins, whoever is to leave leaves.

        :param tick: the last that was done.
        """
        if not self._starting and not self._ending:
            return
        started = list(self._starting.values())
        stale = self._faults.stale()
        ending = sorted(self._ending)
        self._attribution.remove([self._workloads.by_id[workload_id] for workload_id in ending], stale)
        for workload_id in ending:
            self._clear_brought(workload_id)
        self._attribution.add(started)
        self._workloads.change(started, self._ending, tick, now_seconds)
        self._starting, self._ending = {}, set()

    def told(self) -> list[Verdict]:
        """The verdicts that nobody was told yet."""
        told, self._told = self._told, []
        return told

    @property
    def starting_count(self) -> int:
        """How many workloads wait for the next tick."""
        return len(self._starting)

    def is_ending(self, workload_id: str) -> bool:
        """Whether a workload leaves with the next tick."""
        return workload_id in self._ending
