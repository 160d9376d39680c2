"""Partitionable devices: boards that claims divide (MIG), each instance that they could have as a device of its own.

A slice has the counters of all boards; a device takes some of them, so that a scheduler allocates none that does not
fit beside those that are allocated: engines, memory, and each memory slice. A whole board takes all. What is allocated
is made, and goes with its claim. Sources: KEP-4815; kubernetes-sigs/dra-driver-nvidia-gpu (feature DynamicMIG),
cmd/gpu-kubelet-plugin (partitions.go: names and amounts; driver.go: the slices since Kubernetes 1.35).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from fakedev.base.groups import grouped
from fakedev.fleet.parts.mig import Instance, Mig, instance_of, mig_of
from fakedev.fleet.spec.device_types import MigProfile
from fakedev.fleet.spec.fleet_spec import Layout
from fakedev.kubernetes.devices.dra import (
    DraDevice,
    dra_devices,
    instance_amounts,
    instance_attributes,
    instance_name,
    profile_id,
    values_of,
)
from fakedev.kubernetes.devices.mig_config import layout_now
from fakedev.kubernetes.devices.offered_devices import MIG_PREFIX, NodeDevices, Slot, numa_node
from fakedev.kubernetes.devices.resource_slices import counter_set, device_of_slice, slices_of_pool

#: Sets of counters that a slice may have.
_SETS_OF_SLICE: Final = 8
_UPPER: Final = re.compile("(?<=[a-z0-9])([A-Z])")


def partitionable_devices(devices: NodeDevices) -> tuple[DraDevice, ...]:
    """The boards of a node and all instances that they could have; without MIG as otherwise."""
    mig = mig_of(devices.pool.device_type)
    if mig is None:
        return dra_devices(devices)
    found: list[DraDevice] = []
    for whole in dra_devices(_undivided(devices)):
        parts = devices.pool.parts_of(whole.slot.index)
        made = {(one.profile, one.begin): at for at, one in enumerate(instance_of(mig, part) for part in parts)}
        instances = [
            _instance(devices, whole, mig, profile, begin, made.get((profile.name, begin)))
            for profile in mig.profiles
            for begin in profile.begins
        ]
        most: dict[str, int] = {}
        for instance in instances:
            for name, amount in instance.counters.items():
                most[name] = max(most.get(name, 0), amount)
        amounts = {name: most[_counter(name)] for name in instances[0].capacity}
        capacity = values_of(amounts)
        # A scheduler takes the first device that fits, in order of names, as of the driver.
        found += [replace(whole, capacity=capacity, counters=most), *sorted(instances, key=lambda each: each.name)]
    return tuple(found)


def partitionable_slices(
    devices: NodeDevices, unhealthy: Mapping[str, str], node_uid: str
) -> list[dict[str, Any]]:
    """The slices of a node: of its counters, then one of each board.

    :param unhealthy, node_uid: as of :func:`~fakedev.kubernetes.devices.resource_slices.resource_slices`.
    """
    boards = grouped((device.slot.index, device) for device in partitionable_devices(devices))
    sets = [
        {"name": counter_set(index), "counters": values_of(whole.counters)}
        for index, (whole, *_) in boards.items()
        if whole.counters
    ]
    contents: list[dict[str, Any]] = [
        {"sharedCounters": sets[place : place + _SETS_OF_SLICE]} for place in range(0, len(sets), _SETS_OF_SLICE)
    ]
    contents += [{"devices": [device_of_slice(device, unhealthy) for device in board]} for board in boards.values()]
    return slices_of_pool(devices.name, contents, node_uid)


def layout_of_claims(base: NodeDevices, claimed: Iterable[DraDevice]) -> Layout:
    """The instances of each board, as claims have them; empty: the boards are as the configuration says.

    :param base: the node as the configuration has it.
    """
    boards: list[list[Instance]] = [[] for _ in base.boards]
    for device in claimed:
        if device.instance is not None:
            boards[device.slot.index].append(device.instance)
    layout = tuple(tuple(sorted({*board}, key=lambda one: one.begin)) or None for board in boards)
    return () if layout == layout_now(base) else layout


def _undivided(devices: NodeDevices) -> NodeDevices:
    """The node with all its boards undivided, whose devices are whole boards."""
    own = {index: replace(device, parts=(), facts={**device.facts, "mig_mode": "0"})
           for index, device in devices.pool.devices.items()}  # fmt: skip
    return NodeDevices(devices.seed, replace(devices.pool, parts=(), devices=own), devices.node)


def _instance(
    devices: NodeDevices, whole: DraDevice, mig: Mig, profile: MigProfile, begin: int, number: int | None
) -> DraDevice:
    index = whole.slot.index
    facts = devices.boards[index]
    amounts = instance_amounts(facts, profile.name, profile.memory_bytes)
    slices = {f"memory-slice-{place}": 1 for place in range(begin, begin + profile.memory_slices)}
    number_of_profile = profile_id(mig.slices, profile.slices, profile.memory_slices, profile.name)
    uuid = f"MIG-{devices.parts[index][number]['part_uuid']}" if number is not None else ""
    return DraDevice(
        instance_name(index, profile.name, number_of_profile, begin),
        Slot(MIG_PREFIX + profile.name.replace("+", "."), uuid, index, number, numa_node(facts)),
        whole.board_id,
        profile.name,
        instance_attributes(facts, profile.name),
        values_of(amounts),
        {**{_counter(name): amount for name, amount in amounts.items()}, **slices},
        Instance(profile.name, begin),
        is_made=number is not None,
    )


def _counter(name: str) -> str:
    """The name of the counter of a capacity: ``copy-engines`` of ``copyEngines``."""
    return _UPPER.sub(r"-\1", name).lower()
