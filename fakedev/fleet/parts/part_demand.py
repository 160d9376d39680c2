"""Capacity of parts for workloads, and the demand of work on parts as a demand on their devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from fakedev.fleet.boards.engines import USAGE_QUANTITIES
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.parts.part_layout import Parts
from fakedev.fleet.spec.quantities import ERROR_COUNTERS, IMPLIED_USAGE
from fakedev.fleet.workloads.demand import Capacity, Demand, Swing

_MEMORY = "memory_used_bytes"


def memory_share(parts: Parts, max_bytes: Floats) -> Floats:
    """The share of its device's memory that each part has, at most 1, shape (P,).

    :param max_bytes: memory of each device that workloads can use, shape (D,).
    """
    most = max_bytes[parts.owners]
    is_known = (most > 0) & (parts.memory_bytes > 0)
    shares: Floats = np.where(is_known, parts.memory_bytes / np.where(most > 0, most, 1.0), parts.compute_share)
    return np.minimum(shares, 1.0)


def part_share(parts: Parts, quantity: str, of_memory: Floats) -> Floats | float:
    """The part's share of a device's amount of a quantity: shape (P,), or one number for all.

    It is 1 for ratios: those of a part are relative to the part.

    :param of_memory: each part's share of the memory, shape (P,).
    """
    if quantity.endswith("_ratio"):
        return 1.0
    return of_memory if quantity == _MEMORY else parts.compute_share


def unit_capacity(devices: Capacity, parts: Parts) -> Capacity:
    """The capacity of devices and parts for workloads.

    Each part can use the whole PCIe link. A fault cannot hang a single instance; a tile hangs its board.

    :param devices: the capacity of undivided devices.
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
            quantity: parts.units(value, value[parts.owners] * part_share(parts, quantity, of_memory))
            for quantity, value in values.items()
        }

    total = devices.memory_total_bytes[parts.owners]
    return Capacity(
        maxima={name: parts.units(limits, most(name, limits)) for name, limits in devices.maxima.items()},
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
        memory_share=devices.memory_share,
    )


def demand_within(demand: Demand, parts: Parts, capacity: Capacity) -> Demand:
    """The demand with requests for engines and memory bandwidth of parts limited to what the loads on them leave.

    So no part uses more of its device than its share. Requests for tensor pipes and 3D also are usage: they get at most
    the time that the loads leave.

    :param demand: on all units.
    :param capacity: of all units.
    """
    names = [name for name in demand.asked if name.endswith("_ratio") and name != IMPLIED_USAGE]
    if not names:
        return demand
    begin = parts.device_count

    def room(name: str) -> Floats:
        """What the loads on each part leave of a quantity, shape (P,)."""
        left = capacity.most(name)[begin:]
        left = left - capacity.idle[name][begin:] if name in capacity.idle else left
        for kind, load in (demand.loads if name == "usage_ratio" else demand.activity).items():
            brought = capacity.brought(kind).get(name)
            left = left if brought is None else left - load[begin:] * brought[begin:]
        return np.maximum(left, 0.0)

    asked, time = dict(demand.asked), room("usage_ratio")
    for name in names:
        amount = np.minimum(demand.asked[name][begin:], room(name))
        if name in USAGE_QUANTITIES:
            amount = np.minimum(amount, time)
            time = time - amount
        asked[name] = np.concatenate((demand.asked[name][:begin], amount))
    if IMPLIED_USAGE in asked:
        implied = asked[IMPLIED_USAGE]
        asked[IMPLIED_USAGE] = np.concatenate((implied[:begin], np.minimum(implied[begin:], time)))
    return replace(demand, asked=asked)


def device_demand(demand: Demand, parts: Parts, used_bytes: Floats, idle_bytes: Floats) -> Demand:
    """The demand on each device by the work on it and on its parts.

    A load on a part counts with its compute share; bytes and numbers add up. A device with parts uses the memory that
    its parts use, and has a context if one of them has.

    :param demand: on all units.
    :param used_bytes: memory that the parts use, shape (P,).
    :param idle_bytes: memory that devices use without work, shape (D,).
    """
    asked = {
        name: parts.folded(values, parts.compute_share if name.endswith("_ratio") else 1.0)
        for name, values in demand.asked.items()
        if name != _MEMORY
    }
    count = parts.device_count
    own = demand.asked[_MEMORY][:count] if _MEMORY in demand.asked else np.zeros(count)
    used = np.bincount(parts.owners, weights=used_bytes, minlength=count)
    asked[_MEMORY] = np.where(parts.is_whole, own, used - idle_bytes)
    folded = demand.with_loads(lambda load: np.minimum(parts.folded(load, parts.compute_share), 1.0))
    contexts = parts.folded(demand.contexts.astype(np.float64)) > 0
    # Parts change independently: devices with parts have the mean.
    swing = None if demand.swing is None else Swing(*(values[:count] for values in demand.swing))
    return replace(folded, held=demand.held[:count], asked=asked, contexts=contexts, swing=swing)


def part_demand(demand: Demand, parts: Parts) -> Demand:
    """The demand on the parts, shape (P,), without errors, which their devices count."""
    begin = parts.device_count
    return replace(
        demand.with_loads(lambda load: load[begin:]),
        held=demand.held[begin:],
        asked={name: values[begin:] for name, values in demand.asked.items() if name not in ERROR_COUNTERS},
        contexts=demand.contexts[begin:],
    )
