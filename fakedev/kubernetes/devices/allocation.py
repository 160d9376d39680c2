"""Placement: which free devices of a node a container gets.

It prefers devices with the most links between them, then near each other, then in order, as NVIDIA's device plugin
does (NVIDIA/k8s-device-plugin, internal/rm/allocate.go): whole boards ``aligned``, shared ones and instances
``distributed``, from the board with the fewest replicas in use. For boards it asks for the best set by links and host
topology (NVIDIA/go-gpuallocator, best-effort policy), and keeps what remains connected.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb
from typing import Final

import numpy as np

from fakedev.base.groups import grouped
from fakedev.fleet.links.link_layout import NOWHERE, other_ends
from fakedev.fleet.spec.device_types import Layout
from fakedev.kubernetes.devices.offered_devices import REPLICA, NodeDevices, Slot

#: More sets than this are not compared one by one: 8 of 16 boards are 12,870, a millisecond for each thousand or so.
_MAX_SETS: Final = 2000
#: Boards from which on a good set is grown, because trying all sets takes too long.
_MAX_SEEDS: Final = 16
#: One link counts more than any number of boards of the same NUMA node.
_LINK: Final = 1000
_SAME_NUMA_NODE: Final = 1

#: How well each two boards are connected, by their indices.
Scores = Sequence[Sequence[int]]


def preferred(devices: NodeDevices, available: Sequence[Slot], must: Sequence[Slot], count: int) -> list[Slot]:
    """The slots that a container should get, in order of the node's slots.

    :param available: of one resource; may include those of ``must``.
    :param must: slots that the container gets in any case.
    :param count: of slots in all; fewer are returned where there are fewer.
    """
    taken = {slot.id for slot in must}
    order = {slot.id: place for place, slot in enumerate(devices.slots)}
    free = sorted((slot for slot in available if slot.id not in taken), key=lambda slot: order[slot.id])
    needed = min(max(count - len(must), 0), len(free))
    if len(free) > needed:
        if all(slot.part is None and REPLICA not in slot.id for slot in free):
            near = [slot.index for slot in must]
            chosen = _connected(scores(devices), [slot.index for slot in free], near, needed)
            free = [slot for slot in free if slot.index in chosen]
        else:
            free = _distributed(devices, free, must, needed)
    return sorted((*must, *free), key=lambda slot: order[slot.id])


def scores(devices: NodeDevices) -> Scores:
    """How well each two boards of a node are connected: by the number of their links, then by NUMA node."""
    count = devices.pool.devices_per_node
    found = np.zeros((count, count), dtype=np.int64)
    links = devices.pool.device_type.connections.links
    if links is not None and links.layout is Layout.SWITCHES and len(links.peers) != count:
        found += links.count * _LINK  # switches connect all boards with all their links
    elif links is not None:
        ends = other_ends(links, count)
        here = np.flatnonzero(ends != NOWHERE)
        np.add.at(found, (here // links.count, ends[here] // links.count), _LINK)
    # Boards of unknown NUMA nodes are near none.
    zones = {slot.index: slot.numa_node for slot in devices.slots}
    nodes = np.array([-1 - place if zones.get(place) is None else zones[place] for place in range(count)])
    found += (nodes[:, np.newaxis] == nodes) * _SAME_NUMA_NODE
    np.fill_diagonal(found, 0)
    matrix: list[list[int]] = found.tolist()
    return matrix


def _connected(of: Scores, free: Sequence[int], must: Sequence[int], count: int) -> tuple[int, ...]:
    """The boards among the free ones that are best connected with each other and with those that must be there.

    Among equal sets that which leaves the others best connected; then the first.
    """
    with_must = {board: sum(of[board][other] for other in must) for board in free}
    with_all = {board: sum(of[board][other] for other in free) for board in free}

    def value(boards: Iterable[int]) -> tuple[int, int]:
        chosen = tuple(boards)
        inside = sum(of[one][other] for one, other in combinations(chosen, 2))
        # The links that the others lose: all of the chosen ones, where those between two were counted twice.
        lost = sum(with_all[board] for board in chosen) - inside
        return inside + sum(with_must[board] for board in chosen), -lost

    if comb(len(free), count) <= _MAX_SETS:
        # The first of the best: combinations come in order, and max keeps the first.
        return max(combinations(free, count), key=value)
    seeds = sorted(free, key=lambda board: -with_must[board])[:_MAX_SEEDS]
    return max((_grown(of, free, with_must, seed, count) for seed in seeds), key=value)


def _grown(of: Scores, free: Sequence[int], with_must: dict[int, int], seed: int, count: int) -> tuple[int, ...]:
    """A set that is grown from one board, each time by the board that is best connected with it."""
    near = dict(with_must)
    chosen: list[int] = []
    board = seed
    while True:
        chosen.append(board)
        del near[board]
        if len(chosen) == count:
            return tuple(sorted(chosen))
        for other in near:
            near[other] += of[board][other]
        board = max(near, key=lambda each: near[each])


def _distributed(devices: NodeDevices, free: Sequence[Slot], must: Sequence[Slot], count: int) -> list[Slot]:
    """Slots of the boards or instances with the fewest replicas in use, one after the other."""
    left = grouped((slot.device_id, slot) for slot in free)
    used = {device: -len(slots) for device, slots in left.items()}
    for slot in devices.slots:
        if slot.device_id in used:
            used[slot.device_id] += 1
    picked = dict.fromkeys(left, 0)
    for slot in must:
        if slot.device_id in picked:
            picked[slot.device_id] += 1
    chosen: list[Slot] = []
    while len(chosen) < count:
        device = min((candidate for candidate in left if left[candidate]), key=lambda each: (used[each], picked[each]))
        chosen.append(left[device].pop(0))
        used[device] += 1
        picked[device] += 1
    return chosen
