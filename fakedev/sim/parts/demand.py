"""What work on parts means to their devices, and what parts can do for work."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.parts.layout import Parts
from fakedev.sim.workloads.demand import Capacity, Demand
from fakedev.spec.quantities import ERROR_COUNTERS

_MEMORY = "memory_used_bytes"


def memory_share(parts: Parts, max_bytes: Floats) -> Floats:
    """The share of its device's memory that each part has, shape (P,).

    :param max_bytes: what work can have of each device's, shape (D,).
    """
    most = max_bytes[parts.owners]
    is_known = (most > 0) & (parts.memory_bytes > 0)
    shares: Floats = np.where(is_known, parts.memory_bytes / np.where(most > 0, most, 1.0), parts.compute_share)
    return shares


def part_share(parts: Parts, quantity: str, of_memory: Floats) -> Floats | float:
    """What is a part's when a device as a whole has so much of a quantity: shape (P,), or one number for all.

    Ratios are by what there is, here as there.

    :param of_memory: the share of the memory that each has, shape (P,).
    """
    if quantity.endswith("_ratio"):
        return 1.0
    return of_memory if quantity == _MEMORY else parts.compute_share


def unit_capacity(devices: Capacity, parts: Parts) -> Capacity:
    """What devices and parts can do for workloads.

    The PCIe link is there for each part as a whole. An instance cannot hang by itself; a tile hangs its board.

    :param devices: what the devices can do as a whole.
    """
    if not parts.count:
        return devices
    of_memory = memory_share(parts, devices.most(_MEMORY))

    def most(quantity: str, values: Floats) -> Floats:
        whole = values[parts.owners]
        if quantity == _MEMORY:
            return whole * of_memory
        if quantity == "hung":
            return np.where(parts.is_tile, whole, 0.0)
        return whole * parts.has_links if quantity.startswith("fabric_") else whole

    def shared(values: Mapping[str, Floats]) -> Mapping[str, Floats]:
        return {
            quantity: parts.units(each, each[parts.owners] * part_share(parts, quantity, of_memory))
            for quantity, each in values.items()
        }

    total = devices.memory_total_bytes[parts.owners]
    return Capacity(
        maxima={name: parts.units(each, most(name, each)) for name, each in devices.maxima.items()},
        idle=shared(devices.idle),
        holds_memory=parts.units(devices.holds_memory),
        memory_total_bytes=parts.units(
            devices.memory_total_bytes, np.where(parts.memory_bytes > 0, parts.memory_bytes, total * of_memory)
        ),
        memory_bytes_per_second=parts.units(
            devices.memory_bytes_per_second, devices.memory_bytes_per_second[parts.owners] * parts.compute_share
        ),
        clock_mhz=parts.units(devices.clock_mhz),
        capability=parts.units(devices.capability, devices.capability[parts.owners] * parts.compute_share),
        brought=cache(lambda kind: shared(devices.brought(kind))),
        amount_shares=parts.amount_shares,
    )


def device_demand(demand: Demand, parts: Parts, used_bytes: Floats, idle_bytes: Floats) -> Demand:
    """What is asked of each device, by the work on it and on its parts.

    A load on a part is its compute share of the same load on the device; what counts in bytes or pieces adds up.
    Memory of a device with parts is what its parts use.

    :param demand: of all units.
    :param used_bytes: what the parts use of their memory, shape (P,).
    :param idle_bytes: what devices use without any work, shape (D,).
    """
    if not parts.count:
        return demand
    loads = {kind: np.minimum(parts.folded(each, parts.compute_share), 1.0) for kind, each in demand.loads.items()}
    asked = {
        name: parts.folded(each, parts.compute_share if name.endswith("_ratio") else 1.0)
        for name, each in demand.asked.items()
        if name != _MEMORY
    }
    count = parts.device_count
    own = demand.asked[_MEMORY][:count] if _MEMORY in demand.asked else np.zeros(count)
    used = np.bincount(parts.owners, weights=used_bytes, minlength=count)
    asked[_MEMORY] = np.where(parts.is_whole, own, used - idle_bytes)
    return Demand(loads, demand.held[:count], asked)


def part_demand(demand: Demand, parts: Parts) -> Demand:
    """What is asked of the parts, shape (P,): errors aside, which their devices count."""
    begin = parts.device_count
    return Demand(
        {kind: each[begin:] for kind, each in demand.loads.items()},
        demand.held[begin:],
        {name: each[begin:] for name, each in demand.asked.items() if name not in ERROR_COUNTERS},
    )
