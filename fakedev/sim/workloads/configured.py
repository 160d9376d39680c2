"""The workloads and faults that the configuration starts, and their ids.

Ids are keys of randomness. They depend only on the configuration, so they are the same in every shard.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from fakedev.sim.budget import Budget, Cost, cost_of_fault, cost_of_workload
from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.entities.selectors import is_pattern
from fakedev.sim.faults.faults import Faults
from fakedev.sim.faults.rules import FaultRules, workload_faults
from fakedev.sim.workloads.admission import Admission
from fakedev.sim.workloads.intake import Intake
from fakedev.sim.workloads.workload import CONFIGURATION_PREFIX
from fakedev.spec.errors import Refused
from fakedev.spec.fault import FaultSpec
from fakedev.spec.fleet import WorkloadSpec
from fakedev.spec.limits import Limits, check_limit


class Starts(NamedTuple):
    """What the workloads and faults that a configuration starts take of the limits."""

    workloads: Sequence[Cost] = ()
    faults: Sequence[Cost] = ()


NO_STARTS: Final = Starts()
#: A workload or fault of the configuration.
Spec = TypeVar("Spec", WorkloadSpec, FaultSpec)


class ConfiguredWork:
    """The workloads and faults of the configuration, running or ended."""

    def __init__(self, intake: Intake, faults: Faults, budget: Budget) -> None:
        self._intake = intake
        self._budget = budget
        self._all_faults = faults
        self._workloads: list[tuple[str, WorkloadSpec]] = []
        self._faults: list[tuple[str, FaultSpec]] = []
        #: Ids of the workloads without a device in this shard.
        self._elsewhere: set[str] = set()

    @property
    def workload_ids(self) -> set[str]:
        """The ids of the configuration's workloads."""
        return {workload_id for workload_id, _ in self._workloads}

    @property
    def fault_ids(self) -> set[str]:
        """The ids of the configuration's faults."""
        return {fault_id for fault_id, _ in self._faults}

    def start_workloads(self, specs: Sequence[WorkloadSpec]) -> None:
        """Start workloads of the configuration, with unique ids.

        :raises Refused: if the fleet cannot run one of them.
        """
        taken = self.workload_ids
        for spec in specs:
            workload_id, again = f"{CONFIGURATION_PREFIX}{spec.name}", 1
            while workload_id in taken:
                again += 1
                workload_id = f"{CONFIGURATION_PREFIX}{spec.name}-{again}"
            self._workloads.append((workload_id, spec))
            taken.add(workload_id)
            self._elsewhere.add(workload_id)
        # Those that have devices in this shard now; in a whole fleet, all new ones.
        for workload_id, spec in self._workloads:
            if workload_id in self._elsewhere:
                workload = self._intake.accept(workload_id, spec, of_configuration=True)
                if len(workload.devices):
                    self._elsewhere.remove(workload_id)

    def note_elsewhere(self, workload_ids: Iterable[str]) -> None:
        """Note that some workloads no longer have a device in this shard."""
        self._elsewhere.update(workload_ids)

    def start_faults(self, specs: Sequence[FaultSpec], taken: Collection[str] = ()) -> None:
        """Start faults of the configuration, with unique ids.

        :param taken: further ids in use, of faults that are about to end.
        :raises Refused: if one of them is not possible.
        """
        taken, number = self.fault_ids.union(taken), 1
        for spec in specs:
            while f"config-{number}" in taken:
                number += 1
            fault_id = f"config-{number}"
            self._all_faults.start(fault_id, spec, of_configuration=True)
            self._faults.append((fault_id, spec))
            taken.add(fault_id)

    def starts(self, following: CompiledFleet) -> Starts:
        """The workloads and faults that another configuration would start."""
        workloads = _kept(self._workloads, following.spec.base)[2]
        faults = _kept(self._faults, following.spec.faults)[2]
        return starts_of(workloads, faults, following.admission, following.fault_rules)

    def check_room(self, starts: Starts, limits: Limits) -> None:
        """Check that what another configuration would start has room under its limits.

        :raises Refused: if it has not.
        """
        self._intake.check_room(len(starts.workloads), limits)
        self._all_faults.check_room(len(starts.faults), limits)
        self._budget.check_all([*starts.workloads, *starts.faults], limits)

    def reserve(self, starts: Starts) -> None:
        """Keep room for workloads and faults that a reload will start; none: it starts them now."""
        self._intake.reserve(len(starts.workloads))
        self._all_faults.reserve(len(starts.faults))
        self._budget.reserve([*starts.workloads, *starts.faults])

    def keep_workloads(self, specs: Sequence[WorkloadSpec]) -> tuple[list[str], list[WorkloadSpec]]:
        """Use another configuration: returns the ids of removed workloads, and the workloads to start."""
        self._workloads, gone, begins = _kept(self._workloads, specs)
        self._elsewhere.difference_update(gone)
        return gone, begins

    def keep_faults(self, specs: Sequence[FaultSpec]) -> tuple[list[str], list[FaultSpec]]:
        """As :meth:`keep_workloads`, for the faults."""
        self._faults, gone, begins = _kept(self._faults, specs)
        return gone, begins


def starts_of(
    workloads: Iterable[WorkloadSpec], faults: Iterable[FaultSpec], admission: Admission, rules: FaultRules
) -> Starts:
    """What workloads and faults of a configuration take of the limits.

    :raises Refused: if the fleet cannot have one of them.
    """

    def of_fault(spec: FaultSpec) -> Cost:
        return cost_of_fault(spec, len(rules.made("config", spec, of_configuration=True).devices))

    def of_workload(spec: WorkloadSpec) -> Cost:
        devices = admission.check(spec, of_configuration=True)
        brought = workload_faults("config", spec, rules, of_configuration=True) if spec.faults else ()
        costs = [cost_of_fault(each.spec, len(each.devices)) for each in brought]
        return cost_of_workload(admission.fitted(spec, devices), len(devices), rules.tick_seconds, costs)

    return Starts(list(map(of_workload, workloads)), list(map(of_fault, faults)))


def check_room_of_configuration(
    workloads: Sequence[WorkloadSpec], faults: Sequence[FaultSpec], admission: Admission, rules: FaultRules,
    limits: Limits,
) -> None:  # fmt: skip
    """Check that all workloads and faults of a configuration have room under its limits.

    :raises Refused: if they have not; or if the fleet cannot have one of them.
    """
    check_limit("workloads", len(workloads), 0, limits.workloads)
    check_limit("faults", len(faults), 0, limits.faults)
    budget, roster = Budget(limits), rules.roster
    widest = max(pool.devices_per_node for pool in roster.pools) + roster.parts.count

    def at_most(words: Sequence[str]) -> int:
        count = roster.parts.unit_count
        return count if any(map(is_pattern, words)) else min(count, widest * len(words))

    def of_workload(spec: WorkloadSpec) -> Cost:
        brought = FaultSpec("frozen", spec.devices, spec.node)  # no kind of faults takes more
        costs = [cost_of_fault(brought, at_most(spec.devices))] * len(spec.faults)
        return cost_of_workload(spec, at_most(spec.devices), rules.tick_seconds, costs)

    try:
        most = [of_workload(spec) for spec in workloads]
        budget.check_all([*most, *(cost_of_fault(spec, at_most(spec.devices)) for spec in faults)], limits)
    except Refused:
        # Only now, because to find the devices of many workloads takes long.
        starts = starts_of(workloads, faults, admission, rules)
        budget.check_all([*starts.workloads, *starts.faults], limits)


def _kept(
    before: Sequence[tuple[str, Spec]], after: Sequence[Spec]
) -> tuple[list[tuple[str, Spec]], list[str], list[Spec]]:
    """The workloads or faults that continue, with their ids; the ids of the others; and the new ones to start."""
    left: dict[object, list[tuple[str, Spec]]] = {}
    for each_id, spec in before:
        left.setdefault((spec.devices, spec.node), []).append((each_id, spec))
    stays = []
    begins = []
    for spec in after:
        alike = left.get((spec.devices, spec.node), [])
        same = next((each for each in alike if each[1] == spec), None)
        if same is None:
            begins.append(spec)
        else:
            alike.remove(same)
            stays.append(same)
    ids = {each_id for each_id, _ in stays}
    return stays, [each_id for each_id, _ in before if each_id not in ids], begins
