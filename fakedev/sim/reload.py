"""The effect of a reload on workloads, and what a reload cannot change."""

from __future__ import annotations

from collections.abc import Collection

from fakedev.sim.compiled import CompiledFleet
from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.state import Mask
from fakedev.sim.workloads.labels import Chosen
from fakedev.sim.workloads.running import Workloads
from fakedev.sim.workloads.workload import Verdict
from fakedev.spec.errors import Refused
from fakedev.spec.fleet import FleetSpec


def check_can_reload(now: FleetSpec, following: CompiledFleet) -> None:
    """Check that a fleet can be reloaded with another configuration.

    :raises Refused: if its history could not continue, or a workload of the configuration cannot run.
    """
    for key, before, after in (
        ("seed", now.seed, following.spec.seed),
        ("tick", now.tick_seconds, following.spec.tick_seconds),
        ("epoch", now.epoch_seconds, following.spec.epoch_seconds),
    ):
        if before != after:
            raise Refused("bad-argument", f"fleet.{key} cannot be changed by a reload ({before:g} to {after:g})", key)
    if now.shard != following.spec.shard:
        raise Refused("bad-argument", "fleet.shard cannot be changed by a reload", "shard")
    for workload in following.spec.base:
        following.admission.check(workload, of_configuration=True)


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
