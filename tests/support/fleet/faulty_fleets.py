"""Fleets of catalog boards, and the one way to inject and clear faults in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fakedev.fleet.door import fault_id_of
from fakedev.fleet.events import ClearFaults, InjectFault
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.device_types import DeviceType, Layout
from fakedev.fleet.spec.fault_kinds import fault_from_fields
from fakedev.fleet.spec.fleet_spec import PoolSpec
from tests.support.fleet.calibration import catalog_type, steady_type
from tests.support.fleet.fleets import advance, make_fleet, pool_of, start


def boards_of(name: str, nodes: int = 1, devices: int = 2) -> PoolSpec:
    """A pool of nodes ``dgx-0``, ... with boards of the catalog, whose power does not fluctuate."""
    return pool_of(nodes=nodes, devices_per_node=devices, device_type=steady_type(name))


def in_ring(name: str) -> DeviceType:
    """A board of the catalog with links in a ring."""
    found = catalog_type(name)
    links = found.connections.links
    assert links is not None
    return replace(found, connections=replace(found.connections, links=replace(links, layout=Layout.RING)))


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
    fleet.apply(ClearFaults((fault_id,)))
    advance(fleet, ticks)


def shown(fleet: Fleet, name: str, device: int = 0) -> float:
    """A quantity of a device, as it is."""
    return float(fleet.state.levels["device"].arrays[name][device])
