"""Profiles of pools and devices by name: the workloads and faults that they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fakedev.config.models import LoadedPool
from fakedev.config.schema.nodes import Report
from fakedev.config.schema.schema import Values, plain, was_read
from fakedev.sim.entities.randomness import uniform
from fakedev.sim.faults.rules import FaultRules
from fakedev.spec.errors import FieldError, Refused
from fakedev.spec.fault import FaultSpec
from fakedev.spec.fault_fields import fault_from_fields
from fakedev.spec.fleet import WorkloadSpec
from fakedev.spec.named_profiles import IDLE, MIXES, PROFILES
from fakedev.spec.shards import entity_key
from fakedev.spec.workload_fields import workload_from_fields


class _Work(NamedTuple):
    """What some devices of a pool do.

    :ivar profile: its name, or a schedule.
    :ivar words: the devices, by the name of their workload.
    """

    profile: str | Values
    words: dict[str, list[str]]


def load_profiles(
    pools: Iterable[LoadedPool], seed: int, rules: FaultRules, report: Report
) -> tuple[tuple[WorkloadSpec, ...], tuple[FaultSpec, ...]]:
    """A workload for each node and profile, or for each device, and the faults of each pool and profile.

    Metrics and faults of a profile that the devices lack are left out.
    """
    workloads: list[WorkloadSpec] = []
    faults: list[FaultSpec] = []
    for pool in pools:
        for profile, words in _works(pool, seed):
            if isinstance(profile, str):
                fields: dict[str, object] = {"profile": profile, "faults": []}
                every = [word for each in words.values() for word in each]
                # Not the devices name these faults: a node more must not change what happens on the others.
                of = f"{pool.spec.name}/{pool.spec.device_type.name}/{profile}"
                made = [fault_from_fields({"devices": every, **each}) for each in PROFILES[profile].faults]
                given = [replace(fault, name=of) for fault in made]
                faults += [fault for fault in given if _is_possible(rules, fault)]
            else:
                fields = {"profile": plain(profile), "repeat": profile["repeat"] or 0}
            try:
                any_devices = workload_from_fields({"name": "x", "devices": "all", **fields})
            except FieldError as error:
                if not isinstance(profile, str) and was_read(profile):
                    report.problem(profile.place, f"{error.field}: {error.reason}")
                continue
            workloads += [replace(any_devices, name=name, devices=tuple(each)) for name, each in words.items()]
    return tuple(workloads), tuple(faults)


def _works(pool: LoadedPool, seed: int) -> list[_Work]:
    """For each profile its devices: those of single devices, and the pool's in turn."""
    written = pool.values["profile"]
    names: list[str | Values] = list(written) if isinstance(written, tuple) else [written] if written else []
    own = {} if isinstance(pool.values["devices"], str) else {
        each["index"]: each["profile"] for each in pool.values["devices"] if each["profile"] is not None
    }  # fmt: skip
    found: dict[str | int, _Work] = {}
    number = 0
    for node in pool.spec.nodes:
        drawn = _Draws(seed, pool.spec.name, node.name)
        for index in range(pool.spec.devices_per_node):
            profile = own.get(index)
            if profile is None and names:
                profile, number = names[number % len(names)], number + 1
            if isinstance(profile, str) and profile in MIXES:
                profile = MIXES[profile].drawn(drawn.of(), drawn.of(str(index)))
            if profile is None or profile == IDLE:
                continue
            is_named = isinstance(profile, str)
            name = f"{profile if is_named else 'schedule'}-{node.name}"
            if isinstance(profile, str) and PROFILES[profile].is_single:
                name = f"{name}-{index}"
            key = profile if isinstance(profile, str) else id(profile)
            words = found.setdefault(key, _Work(profile, {})).words
            words.setdefault(name, []).append(f"{node.name}/{index}")
    return list(found.values())


class _Draws:
    """Random numbers in 0 to 1 of a node and its devices: they follow from the names alone."""

    def __init__(self, seed: int, *names: str) -> None:
        self._seed = seed
        self._names = names

    def of(self, *more: str) -> float:
        """The number of the node, or of a device of it."""
        keys = np.array([entity_key("mix", *self._names, *more)], dtype=np.uint64)
        return float(uniform(self._seed, keys, "profile", 0)[0])


def _is_possible(rules: FaultRules, fault: FaultSpec) -> bool:
    try:
        rules.made("config", fault)
    except Refused:
        return False
    return True
