"""What becomes of workloads when a fleet goes over to another configuration, and what no reload can change."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.entities.roster import Roster
from fakedev.sim.workloads.ownership import Chosen
from fakedev.sim.workloads.running import Workloads
from fakedev.sim.workloads.workload import Verdict
from fakedev.spec.errors import Refused
from fakedev.spec.fleet import FleetSpec


def check_can_reload(now: FleetSpec, coming: CompiledFleet) -> None:
    """Whether a fleet can become another.

    :raises Refused: when its history could not go on, or a workload of the configuration cannot run.
    """
    for key, before, after in (
        ("seed", now.seed, coming.spec.seed),
        ("tick", now.tick_seconds, coming.spec.tick_seconds),
        ("epoch", now.epoch_seconds, coming.spec.epoch_seconds),
    ):
        if before != after:
            raise Refused("bad-argument", f"fleet.{key} cannot be changed by a reload ({before:g} to {after:g})", key)
    if now.shard != coming.spec.shard:
        raise Refused("bad-argument", "fleet.shard cannot be changed by a reload", "shard")
    for workload in coming.spec.base:
        coming.admission.check(workload, of_configuration=True)


def without_base(
    workloads: Workloads, ids: Collection[str], reason: str = "no longer in the configuration"
) -> list[Verdict]:
    """Verdicts on workloads of the configuration that end with it."""
    running = [workloads.by_id[each] for each in ids if each in workloads.by_id]
    return [workload.verdict(0, reason) for workload in running]


def without_places(workloads: Workloads, coming: CompiledFleet, ids: Collection[str]) -> list[str]:
    """Those of the configuration's running workloads that a shard has no device of any more."""
    if coming.spec.shard is None:
        return []
    running = [workloads.by_id[each] for each in sorted(ids) if each in workloads.by_id]
    return [
        each.workload_id for each in running if not len(coming.admission.check(each.spec, of_configuration=True))
    ]


def without_devices(
    workloads: Workloads, roster: Roster, gone: NDArray[np.bool_], spared: Collection[str]
) -> list[Verdict]:
    """Verdicts on the workloads that have one of the devices that are gone.

    :param gone: shape (units,) of the roster.
    :param spared: ids of those that are given other devices instead.
    """
    return [
        workload.verdict(1, f"Device {roster.unit_name(device)} is no longer in the fleet, terminated")
        for workload, device in workloads.on_devices(gone)
        if workload.workload_id not in spared
    ]


def choose_devices(workloads: Workloads, coming: CompiledFleet, base: Collection[str]) -> list[Chosen]:
    """Give running workloads of the configuration all devices that their words name now.

    :param base: the ids of those of the configuration.
    :returns: those of the configuration.
    """
    chosen = [Chosen(workload, workload.devices) for workload in workloads.running(base)]
    for workload, _ in chosen:
        workload.devices = coming.admission.check(workload.spec, of_configuration=True)
        workload.limits = coming.admission.limits(workload.spec)
    return chosen
