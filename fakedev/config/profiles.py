"""Profiles that pools and devices are given by name: the workloads and faults that they stand for."""

from __future__ import annotations

from collections.abc import Iterable

from fakedev.config.pools import LoadedPool
from fakedev.sim.admission import Admission
from fakedev.sim.errors import Refused
from fakedev.sim.faults.faults import Faults
from fakedev.sim.faults.fields import fault_from_fields
from fakedev.sim.faults.spec import FaultSpec
from fakedev.sim.named_profiles import PROFILES
from fakedev.sim.spec import WorkloadSpec
from fakedev.sim.workload_fields import workload_from_fields


def load_profiles(
    pools: Iterable[LoadedPool], admission: Admission, rules: Faults
) -> tuple[tuple[WorkloadSpec, ...], tuple[FaultSpec, ...]]:
    """A workload for each node and profile, and the faults of each pool and profile.

    What a profile has of metrics and faults that the devices have not is left out.
    """
    workloads, faults = [], []
    for pool in pools:
        for name, by_node in _dealt(pool).items():
            profile = PROFILES[name]
            for node, words in by_node.items():
                fields: dict[str, object] = {"name": f"{name}-{node}", "devices": words, "profile": name}
                metrics = {
                    metric: asked
                    for metric, asked in profile.metrics.items()
                    if _is_taken(admission, {**fields, "metrics": {metric: asked}})
                }
                workloads.append(workload_from_fields({**fields, "metrics": metrics}))
            every = [word for words in by_node.values() for word in words]
            given = [fault_from_fields({"devices": every, **fields}) for fields in profile.faults]
            faults += [fault for fault in given if _can_be(rules, fault)]
    return tuple(workloads), tuple(faults)


def _dealt(pool: LoadedPool) -> dict[str, dict[str, list[str]]]:
    """For each profile its devices, by node: what single devices are given, the others round."""
    said = pool.values["profile"]
    names = [said] if isinstance(said, str) else list(said or ())
    own = {} if isinstance(pool.values["devices"], str) else {
        each["index"]: each["profile"] for each in pool.values["devices"] if each["profile"] is not None
    }  # fmt: skip
    found: dict[str, dict[str, list[str]]] = {}
    if not names and not own:
        return found
    number = 0
    for node in pool.spec.nodes:
        for index in range(pool.spec.devices_per_node):
            name = own.get(index)
            if name is None and names:
                name, number = names[number % len(names)], number + 1
            if name is not None:
                found.setdefault(name, {}).setdefault(node.name, []).append(f"{node.name}/{index}")
    return found


def _is_taken(admission: Admission, fields: dict[str, object]) -> bool:
    try:
        admission.check(workload_from_fields(fields))
    except Refused:
        return False
    return True


def _can_be(rules: Faults, fault: FaultSpec) -> bool:
    try:
        rules.made("config", fault)
    except Refused:
        return False
    return True
