"""Where the links of the devices of one node lead: for each link the device and the link at its other end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from fakedev.sim.workloads.schedule import Positions
from fakedev.spec.connections import Layout, Links

#: A link that leads to no other device of the node.
NOWHERE: Final = -1


def other_ends(links: Links, devices: int) -> Positions:
    """The other end of each link of a node: shape (devices x links,), device by device, :data:`NOWHERE` for none.

    Both ends of a link name each other. A link that finds no partner, as where the numbers do not come out even, leads
    out of the node.
    """
    ends = np.full(devices * links.count, NOWHERE, dtype=np.int64)
    if len(links.peers) == devices:
        pairs: Iterator[tuple[int, int]] = _listed(links.peers, links.count)
    elif links.layout in (Layout.MESH, Layout.RING):
        pairs = _dealt(links, devices)
    else:
        return ends
    for one, other in pairs:
        ends[one], ends[other] = other, one
    return ends


def _listed(peers: Sequence[Sequence[int]], count: int) -> Iterator[tuple[int, int]]:
    """The n-th link from one device to another is the n-th from that to the one."""
    for device, row in enumerate(peers):
        for peer in sorted({each for each in row if each > device}):
            here = [slot for slot, each in enumerate(row) if each == peer]
            there = [slot for slot, each in enumerate(peers[peer]) if each == device]
            for slot, other in zip(here, there, strict=True):
                yield device * count + slot, peer * count + other


def _dealt(links: Links, devices: int) -> Iterator[tuple[int, int]]:
    """Rounds of links to the devices that are 1, 2, ... places further, until all are dealt out.

    Each round takes two links of a device, one forth and one back; that to the opposite device only one.
    """
    furthest = devices // 2 if links.layout is Layout.MESH else min(devices // 2, 1)
    slot = 0
    while furthest and slot < links.count:
        begun = slot
        for distance in range(1, furthest + 1):
            if slot >= links.count:
                break
            # What one link is left for is the opposite device, or nobody.
            taken = distance if slot + 1 < links.count else devices // 2
            if taken * 2 == devices:
                yield from ((at * links.count + slot, (at + taken) * links.count + slot) for at in range(taken))
                slot += 1
            elif slot + 1 < links.count:
                for at in range(devices):
                    yield at * links.count + slot, (at + taken) % devices * links.count + slot + 1
                slot += 2
            else:
                return
        if slot == begun:
            return
