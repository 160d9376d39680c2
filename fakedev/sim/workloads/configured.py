"""The workloads and faults that the configuration starts, and their ids.

Ids are keys of randomness. They depend only on the configuration, so they are the same in every shard.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

from fakedev.sim.faults.faults import Faults
from fakedev.sim.workloads.intake import Intake
from fakedev.sim.workloads.workload import CONFIGURATION_PREFIX
from fakedev.spec.fault import FaultSpec
from fakedev.spec.fleet import FleetSpec, WorkloadSpec

#: A workload or fault of the configuration.
Spec = TypeVar("Spec", WorkloadSpec, FaultSpec)


class ConfiguredWork:
    """The workloads and faults of the configuration, running or ended."""

    def __init__(self, intake: Intake, faults: Faults) -> None:
        self._intake = intake
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
            self._all_faults.add(self._all_faults.made(fault_id, spec, of_configuration=True))
            self._faults.append((fault_id, spec))
            taken.add(fault_id)

    def check_room(self, following: FleetSpec) -> tuple[int, int]:
        """How many workloads and faults another configuration would start.

        :raises Refused: if there would be too many.
        """
        workloads = len(_kept(self._workloads, following.base)[2])
        faults = len(_kept(self._faults, following.faults)[2])
        self._intake.check_room(workloads)
        self._all_faults.check_room(faults)
        return workloads, faults

    def reserve(self, workloads: int, faults: int) -> None:
        """Keep room for workloads and faults that a reload will start; 0: it has started them."""
        self._intake.reserve(workloads)
        self._all_faults.reserve(faults)

    def keep_workloads(self, specs: Sequence[WorkloadSpec]) -> tuple[list[str], list[WorkloadSpec]]:
        """Use another configuration: returns the ids of removed workloads, and the workloads to start."""
        self._workloads, gone, begins = _kept(self._workloads, specs)
        self._elsewhere.difference_update(gone)
        return gone, begins

    def keep_faults(self, specs: Sequence[FaultSpec]) -> tuple[list[str], list[FaultSpec]]:
        """As :meth:`keep_workloads`, for the faults."""
        self._faults, gone, begins = _kept(self._faults, specs)
        return gone, begins


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
