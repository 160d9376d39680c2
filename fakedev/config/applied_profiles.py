"""Profiles of pools and devices by name: the workloads and faults that they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fakedev.config.models import LoadedPool
from fakedev.config.schema.nodes import Report
from fakedev.config.schema.schema import Values, plain, was_read
from fakedev.sim.faults.rules import FaultRules
from fakedev.spec.errors import FieldError, Refused
from fakedev.spec.fault import FaultSpec
from fakedev.spec.fault_fields import fault_from_fields
from fakedev.spec.fleet import WorkloadSpec
from fakedev.spec.named_profiles import PROFILES
from fakedev.spec.workload_fields import workload_from_fields


def load_profiles(
    pools: Iterable[LoadedPool], rules: FaultRules, report: Report
) -> tuple[tuple[WorkloadSpec, ...], tuple[FaultSpec, ...]]:
    """A workload for each node and profile, and the faults of each pool and profile.

    Metrics and faults of a profile that the devices lack are left out.
    """
    workloads: list[WorkloadSpec] = []
    faults: list[FaultSpec] = []
    for pool in pools:
        for profile, by_node in _devices_by_profile(pool):
            if isinstance(profile, str):
                fields: dict[str, object] = {"profile": profile, "faults": []}
                every = [word for words in by_node.values() for word in words]
                # Not the devices name these faults: a node more must not change what happens on the others.
                of = f"{pool.spec.name}/{pool.spec.device_type.name}/{profile}"
                made = [fault_from_fields({"devices": every, **each}) for each in PROFILES[profile].faults]
                given = [replace(fault, name=of) for fault in made]
                faults += [fault for fault in given if _is_possible(rules, fault)]
            else:
                fields = {"profile": plain(profile), "repeat": profile["repeat"] or 0}
            name = profile if isinstance(profile, str) else "schedule"
            try:
                workloads += [
                    workload_from_fields({"name": f"{name}-{node}", "devices": words, **fields})
                    for node, words in by_node.items()
                ]
            except FieldError as error:
                if not isinstance(profile, str) and was_read(profile):
                    report.problem(profile.place, f"{error.field}: {error.reason}")
    return tuple(workloads), tuple(faults)


def _devices_by_profile(pool: LoadedPool) -> list[tuple[str | Values, dict[str, list[str]]]]:
    """For each profile its devices, by node: those of single devices, and the pool's in turn."""
    written = pool.values["profile"]
    names: list[str | Values] = list(written) if isinstance(written, tuple) else [written] if written else []
    own = {} if isinstance(pool.values["devices"], str) else {
        each["index"]: each["profile"] for each in pool.values["devices"] if each["profile"] is not None
    }  # fmt: skip
    found: dict[str | int, tuple[str | Values, dict[str, list[str]]]] = {}
    number = 0
    for node in pool.spec.nodes:
        for index in range(pool.spec.devices_per_node):
            name = own.get(index)
            if name is None and names:
                name, number = names[number % len(names)], number + 1
            if name is not None:
                key = name if isinstance(name, str) else id(name)
                found.setdefault(key, (name, {}))[1].setdefault(node.name, []).append(f"{node.name}/{index}")
    return list(found.values())


def _is_possible(rules: FaultRules, fault: FaultSpec) -> bool:
    try:
        rules.made("config", fault)
    except Refused:
        return False
    return True
