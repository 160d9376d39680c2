"""The workloads and faults that the configuration starts, with their ids and the keys of their randomness.

A key has what its owner is called and where it is, never a position in a list: what is added to a configuration, or
removed from it, changes the draws of nothing else. Keys and ids depend only on the configuration, so they are the same
in every shard.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Generic, NamedTuple, TypeVar

from fakedev.base.errors import Refused
from fakedev.base.groups import grouped
from fakedev.fleet.budget import Budget, cost_of_fault, cost_of_workload
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.entities.naming import generated_name
from fakedev.fleet.entities.roster import Roster
from fakedev.fleet.entities.selectors import is_pattern
from fakedev.fleet.entities.state import Mask
from fakedev.fleet.faults.faults import Faults
from fakedev.fleet.faults.rules import FaultRules, workload_faults
from fakedev.fleet.spec.fleet_spec import Cost, FaultSpec
from fakedev.fleet.spec.limits import Limits, check_limit, entity_key
from fakedev.fleet.spec.workload_fields import fields_of_workload
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.fleet.workloads.admission import Admission
from fakedev.fleet.workloads.intake import Intake
from fakedev.fleet.workloads.owners import Chosen
from fakedev.fleet.workloads.running import Workloads
from fakedev.fleet.workloads.workload import CONFIGURATION_PREFIX, Verdict, Workload


class Starts(NamedTuple):
    """What the workloads and faults that a configuration starts take of the limits."""

    workloads: Sequence[Cost] = ()
    faults: Sequence[Cost] = ()


NO_STARTS: Final = Starts()
#: The waits before ended work starts again, and how long it has to run until its waits begin anew: those of containers
#: in Kubernetes (Pod Lifecycle, "Container restart policy").
_FIRST_WAIT_SECONDS: Final = 10.0
_LONGEST_WAIT_SECONDS: Final = 300.0
_SETTLED_SECONDS: Final = 600.0
#: Sums of decimal fractions miss the start of a tick by less than this.
_ROUNDING_SECONDS: Final = 1e-6
#: The length of the end of a fault's id.
_SUFFIX_LENGTH: Final = 5
#: A workload or fault of the configuration.
Spec = TypeVar("Spec", WorkloadSpec, FaultSpec)


class Configured(NamedTuple, Generic[Spec]):
    """A workload or fault that the configuration has started.

    :ivar key: of its randomness.
    """

    work_id: str
    key: str
    spec: Spec


class _Wait(NamedTuple):
    """Work that ended, and starts again: the length of the wait, its end, and whether the work has started."""

    seconds: float
    due_seconds: float
    has_started: bool = False


class ConfiguredWork:
    """The workloads and faults of the configuration, running or ended.

    :ivar waits: the last waits of workloads that start again after their end, by id; those that run again keep theirs.
    """

    def __init__(self, intake: Intake, faults: Faults, budget: Budget) -> None:
        self._intake = intake
        self._budget = budget
        self._all_faults = faults
        self._workloads: list[Configured[WorkloadSpec]] = []
        self._faults: list[Configured[FaultSpec]] = []
        self._reserved = NO_STARTS
        #: Ids of the workloads without a device in this shard.
        self._elsewhere: set[str] = set()
        self.waits: dict[str, _Wait] = {}

    def note_ends(self, verdicts: Mapping[str, Verdict], now_seconds: float) -> None:
        """Note workloads that have come to an end, which nobody stopped: some start again.

        :param verdicts: by the workload's id; of all workloads.
        """
        if not any(workload.spec.restart != "never" for workload in self._workloads):
            return
        for workload_id, _, spec in self._workloads:
            verdict = verdicts.get(workload_id)
            if verdict is None or spec.restart == "never" or (spec.restart == "on-failure" and verdict.code == 0):
                continue
            before = self.waits.get(workload_id)
            seconds = _FIRST_WAIT_SECONDS
            if before is not None and now_seconds - before.due_seconds < _SETTLED_SECONDS:
                seconds = min(2.0 * before.seconds, _LONGEST_WAIT_SECONDS)
            self.waits[workload_id] = _Wait(seconds, now_seconds + seconds)

    def start_again(self, now_seconds: float) -> list[Workload]:
        """Start the workloads whose waits are over; returns them."""
        started = []
        for workload_id, key, spec in self._workloads:
            wait = self.waits.get(workload_id)
            if wait is None or wait.has_started or wait.due_seconds > now_seconds + _ROUNDING_SECONDS:
                continue
            try:
                workload = self._intake.accept(workload_id, spec, key, of_configuration=True)
            except Refused:
                # A reload has taken its devices: it does not run, like work whose devices are removed while it runs.
                del self.waits[workload_id]
                continue
            if len(workload.devices):
                started.append(workload)
                self.waits[workload_id] = wait._replace(has_started=True)
        return started

    def restarts_at(self, workload_id: str) -> float | None:
        """When a workload that has ended starts again, in simulated seconds; None: it does not, or runs."""
        wait = self.waits.get(workload_id)
        return None if wait is None or wait.has_started else wait.due_seconds

    @property
    def workload_ids(self) -> set[str]:
        """The ids of the configuration's workloads."""
        return {workload.work_id for workload in self._workloads}

    @property
    def fault_ids(self) -> set[str]:
        """The ids of the configuration's faults."""
        return {fault.work_id for fault in self._faults}

    def start_workloads(self, specs: Sequence[WorkloadSpec]) -> None:
        """Start workloads of the configuration, with unique ids.

        :raises Refused: if the fleet cannot run one of them.
        """
        taken = self.workload_ids
        keys = _keys(
            specs, lambda spec: ("base", spec.name, spec.node, *sorted({*spec.devices})),
            lambda spec: repr(fields_of_workload(spec)), self._workloads,
        )  # fmt: skip
        for spec, key in zip(specs, keys, strict=True):
            workload_id = _unique(f"{CONFIGURATION_PREFIX}{spec.name}", taken)
            self._workloads.append(Configured(workload_id, key, spec))
            taken.add(workload_id)
            self._elsewhere.add(workload_id)
        # Those that have devices in this shard now; in a whole fleet, all new ones.
        for workload_id, key, spec in self._workloads:
            if workload_id in self._elsewhere:
                workload = self._intake.accept(workload_id, spec, key, of_configuration=True)
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
        taken = self.fault_ids.union(taken)
        keys = _keys(specs, lambda spec: ("config", *spec.words), repr, self._faults)
        for spec, key in zip(specs, keys, strict=True):
            suffix = generated_name(entity_key("fault of the configuration", *spec.words), _SUFFIX_LENGTH)
            fault_id = _unique(f"config-{spec.kind}-{suffix}", taken)
            self._all_faults.start(fault_id, spec, key, of_configuration=True)
            self._faults.append(Configured(fault_id, key, spec))
            taken.add(fault_id)

    def forget(self) -> None:
        """All workloads and faults of the configuration were ended: the next configuration starts all of its own."""
        self._workloads, self._faults, self._elsewhere, self.waits = [], [], set(), {}

    def starts(self, following: CompiledFleet, *, is_reset: bool = False) -> Starts:
        """The workloads and faults that another configuration would start.

        :param is_reset: it starts all of them, because the fleet begins again.
        """
        workloads = _kept([] if is_reset else self._workloads, following.spec.base)[2]
        faults = _kept([] if is_reset else self._faults, following.spec.faults, _named)[2]
        return starts_of(workloads, faults, following.admission, following.fault_rules)

    def check_room(self, starts: Starts, limits: Limits) -> None:
        """Check that what another configuration would start has room under its limits, in place of what has it now.

        :raises Refused: if it has not.
        """
        kept = self._reserved
        self.reserve(NO_STARTS)
        try:
            self._intake.check_room(len(starts.workloads), limits)
            self._all_faults.check_room(len(starts.faults), limits)
            self._budget.check_all([*starts.workloads, *starts.faults], limits)
        finally:
            self.reserve(kept)

    def reserve(self, starts: Starts) -> None:
        """Keep room for workloads and faults that a reload will start; none: it starts them now."""
        self._reserved = starts
        self._intake.reserve(len(starts.workloads))
        self._all_faults.reserve(len(starts.faults))
        self._budget.reserve([*starts.workloads, *starts.faults])

    def keep_workloads(self, specs: Sequence[WorkloadSpec]) -> tuple[list[str], list[WorkloadSpec]]:
        """Use another configuration: returns the ids of removed workloads, and the workloads to start."""
        self._workloads, gone, begins = _kept(self._workloads, specs)
        self._elsewhere.difference_update(gone)
        for workload_id in gone:
            self.waits.pop(workload_id, None)
        return gone, begins

    def keep_faults(self, specs: Sequence[FaultSpec]) -> tuple[list[str], list[FaultSpec]]:
        """As :meth:`keep_workloads`, for the faults."""
        self._faults, gone, begins = _kept(self._faults, specs, _named)
        for fault_id, _, spec in self._faults:
            if fault_id in self._all_faults.by_id:
                self._all_faults.by_id[fault_id].spec = spec
        return gone, begins


def ended_with_configuration(
    workloads: Workloads, ids: Collection[str], reason: str = "no longer in the configuration"
) -> list[Verdict]:
    """Verdicts on workloads of the configuration that end with the reload."""
    running = [workloads.by_id[each] for each in ids if each in workloads.by_id]
    return [workload.verdict(0, reason) for workload in running]


def without_devices_here(workloads: Workloads, following: CompiledFleet, ids: Collection[str]) -> list[str]:
    """The ids of the configuration's running workloads without a device in this shard after the reload."""
    if following.spec.shard is None:
        return []
    running = [workloads.by_id[each] for each in sorted(ids) if each in workloads.by_id]
    return [
        each.workload_id for each in running if not len(following.admission.check(each.spec, of_configuration=True))
    ]


def without_closed_devices(
    workloads: Workloads, roster: Roster, closed: Mask, spared: Collection[str]
) -> list[Verdict]:
    """Verdicts on the workloads that lose a device with the reload.

    :param closed: which units the reload removes, shape (units,) of the roster.
    :param spared: ids of workloads that get other devices instead.
    """
    return [
        workload.verdict(1, f"Device {roster.unit_name(device)} is no longer in the fleet, terminated")
        for workload, device in workloads.on_devices(closed)
        if workload.workload_id not in spared
    ]


def choose_devices(workloads: Workloads, following: CompiledFleet, ids: Collection[str]) -> list[Chosen]:
    """Give running workloads of the configuration all devices that their device words name after the reload.

    :param ids: of the workloads of the configuration.
    """
    chosen = [Chosen(workload, workload.devices) for workload in workloads.running(ids)]
    for workload, _ in chosen:
        workload.devices = following.admission.check(workload.spec, of_configuration=True)
        workload.limits = following.admission.limits(workload.spec)
    return chosen


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
        costs = [cost_of_fault(fault.spec, len(fault.devices)) for fault in brought]
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
    before: Sequence[Configured[Spec]], after: Sequence[Spec], identity: Callable[[Spec], Spec] = lambda spec: spec
) -> tuple[list[Configured[Spec]], list[str], list[Spec]]:
    """The workloads or faults that continue, with their new specifications; the ids of the others; the ones to start.

    :param identity: the part of a specification by which it is the same.
    """
    left: dict[object, list[Configured[Spec]]] = {}
    for workload in before:
        same = identity(workload.spec)
        left.setdefault((same.devices, same.node), []).append(workload)
    stays = []
    begins = []
    for spec in after:
        same = identity(spec)
        alike = left.get((same.devices, same.node), [])
        found = next((candidate for candidate in alike if identity(candidate.spec) == same), None)
        if found is None:
            begins.append(spec)
        else:
            alike.remove(found)
            stays.append(found._replace(spec=spec))
    ids = {stay.work_id for stay in stays}
    return stays, [each.work_id for each in before if each.work_id not in ids], begins


def _named(spec: FaultSpec) -> FaultSpec:
    """A fault with a name is the same one on other devices."""
    return replace(spec, devices=()) if spec.name else spec


def _keys(
    specs: Sequence[Spec], words_of: Callable[[Spec], tuple[str, ...]], text_of: Callable[[Spec], str],
    before: Iterable[Configured[Spec]],
) -> list[str]:  # fmt: skip
    """The key of each of some workloads or faults: its words, and a number for those that have the same words.

    :param text_of: all of a specification: it decides the numbers, not the place in the list.
    :param before: those that continue, with their keys.
    """
    taken = {workload.key for workload in before}
    alike = grouped(("\0".join(words_of(spec)), place) for place, spec in enumerate(specs))
    found = [""] * len(specs)
    for words, places in alike.items():
        if len(places) > 1:
            places.sort(key=lambda place: text_of(specs[place]))
        number = 0
        for place in places:
            while f"{words}\0{number}" in taken:
                number += 1
            found[place] = f"{words}\0{number}"
            number += 1
    return found


def _unique(wanted: str, taken: Collection[str]) -> str:
    """An id that is not taken: the wanted one, or with a number from 2 on."""
    found, number = wanted, 1
    while found in taken:
        number += 1
        found = f"{wanted}-{number}"
    return found
