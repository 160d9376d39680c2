"""Fleets of catalog boards, and the one way to inject and clear faults in them."""

from __future__ import annotations

from typing import Any

from fakedev.sim.door import fault_id_of
from fakedev.sim.events import ClearFault, InjectFault
from fakedev.sim.fleet import Fleet
from fakedev.spec.fault_fields import fault_from_fields
from fakedev.spec.fleet import PoolSpec
from tests.support.calibration import steady_type
from tests.support.fleets import advance, make_fleet, pool_of, start


def boards_of(name: str, nodes: int = 1, devices: int = 2) -> PoolSpec:
    """A pool of nodes ``dgx-0``, ... with boards of the catalog, whose power does not fluctuate."""
    return pool_of(nodes=nodes, devices_per_node=devices, device_type=steady_type(name))


def busy(ticks: int = 60, name: str = "h100", **more: Any) -> Fleet:
    """Two nodes of four boards, at work for some time."""
    fleet = make_fleet(boards_of(name, nodes=2, devices=4), **more)
    start(fleet, "all", "100:0:0", kind="tensor")
    advance(fleet, ticks)
    return fleet


def inject(fleet: Fleet, **fields: object) -> str:
    """Inject a fault; its id."""
    given = {name.replace("_", "-"): value for name, value in fields.items()}
    return fault_id_of(fleet.apply(InjectFault(fault_from_fields(given))).sequence)


def cleared(fleet: Fleet, fault_id: str, ticks: int = 1) -> None:
    """Clear a fault, and wait."""
    fleet.apply(ClearFault(fault_id))
    advance(fleet, ticks)


def shown(fleet: Fleet, name: str, device: int = 0) -> float:
    """A quantity of a device, as it is."""
    return float(fleet.state.levels["device"].arrays[name][device])
