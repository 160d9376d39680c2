"""The links between a fleet's devices and switches: positions in arrays, and the other end of each link.

Links are ordered by device and by their number on it; switches by node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Mask, Positions
from fakedev.fleet.spec.device_types import Layout, Links
from fakedev.fleet.spec.fleet_spec import PoolSpec

Value = TypeVar("Value", bound=np.generic)
_SmallNumbers = NDArray[np.int32]

#: The other end of a link that leads to no other device of the node.
NOWHERE: Final = -1
#: Products of shares and numbers of links miss a whole number by less than this.
_ROUNDING: Final = 1e-9


def remaining_links(share: Floats, counts: Positions) -> Floats:
    """How many of the links of devices stay up at a remaining share of their capacity."""
    remaining: Floats = np.ceil(share * counts - _ROUNDING)
    return remaining


def other_ends(links: Links, devices: int) -> Positions:
    """The other end of each link of a node: shape (devices x links,), device by device, :data:`NOWHERE` for none.

    Both ends of a link name each other. A link without a partner, as with odd numbers, leaves the node.
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
    """Pair the n-th link from one device to another with the n-th link back."""
    for device, row in enumerate(peers):
        for peer in sorted({device_there for device_there in row if device_there > device}):
            here = [slot for slot, device_there in enumerate(row) if device_there == peer]
            there = [slot for slot, device_there in enumerate(peers[peer]) if device_there == device]
            for slot, other in zip(here, there, strict=True):
                yield device * count + slot, peer * count + other


def _dealt(links: Links, devices: int) -> Iterator[tuple[int, int]]:
    """Connect devices at distances 1, 2, ... until all links are used.

    Each distance takes two links of a device, one in each direction; the opposite device takes only one.
    """
    furthest = devices // 2 if links.layout is Layout.MESH else min(devices // 2, 1)
    slot = 0
    while furthest and slot < links.count:
        begun = slot
        for distance in range(1, furthest + 1):
            if slot >= links.count:
                break
            # A single remaining link can only connect the opposite device.
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


@dataclass(frozen=True)
class _Pool:
    """The links of the devices of some nodes of a pool; in racks, a partition of the fabric is in the place of a node.

    :ivar links: None where boards have no single links.
    :ivar bytes_per_second: capacity of all links of a board in each direction; 0 if not known.
    :ivar has_dynamics: whether the traffic of the two ends of a link follows from each other.
    :ivar sharing: how many consecutive nodes have the same switches.
    """

    nodes: int
    devices: int
    links: Links | None
    bytes_per_second: float
    has_dynamics: bool
    sharing: int = 1

    @property
    def per_device(self) -> int:
        return self.links.count if self.links else 0

    @property
    def is_meshed(self) -> bool:
        """Whether links lead from board to board."""
        return self.has_dynamics and self.links is not None and not self.switches

    @property
    def switches(self) -> int:
        """Switches of one node."""
        return self.links.switches if self.links and self.links.layout is Layout.SWITCHES else 0

    @property
    def sets(self) -> int:
        """How many times it has these switches."""
        return self.nodes // self.sharing


#: The arrays that a failing link needs.
_PREPARED: Final = ("owners", "numbers", "remotes", "switches", "switch_numbers", "nodes")


class LinkLayout:
    """L links of D devices, and S switches. Large arrays are computed on demand.

    :param runs: pools with the number of consecutive nodes, in the order of the devices.
    :param isolated: devices whose parts may not use the links.
    :ivar counts: links of each device, shape (D,).
    :ivar firsts: the first link of each device, shape (D,).
    :ivar isolated: devices with links that nothing may use, shape (D,); None for none.
    :ivar is_meshed: whether links lead from board to board anywhere.
    """

    def __init__(self, runs: Sequence[tuple[PoolSpec, int]], isolated: Sequence[int] | Positions = ()) -> None:
        self._pools = [layout for pool, nodes in runs for layout in _of_pool(pool, nodes)]
        self.counts: Positions = np.repeat(
            np.array([pool.per_device for pool in self._pools], dtype=np.int64),
            np.array([pool.nodes * pool.devices for pool in self._pools], dtype=np.int64),
        )
        ends = np.cumsum(self.counts)
        self.firsts: Positions = ends - self.counts
        self.count = int(ends[-1]) if len(ends) else 0
        self.switch_count = sum(pool.sets * pool.switches for pool in self._pools)
        self.is_meshed = any(pool.is_meshed for pool in self._pools)
        closed = np.zeros(len(self.counts), dtype=np.bool_)
        closed[np.asarray(isolated, dtype=np.int64)] = True
        closed &= self.counts > 0
        self.isolated: Mask | None = closed if closed.any() else None

    def prepare(self) -> None:
        """Compute the arrays that a failing link needs: with very many links this takes some milliseconds."""
        for name in _PREPARED:
            getattr(self, name)

    def forget(self) -> None:
        """Free these arrays, 6 MB of 10,000 devices with 18 links, where nobody needs them any more."""
        for name in _PREPARED:
            self.__dict__.pop(name, None)

    def of(self, device: int) -> range:
        first = int(self.firsts[device])
        return range(first, first + int(self.counts[device]))

    def each(self, values: NDArray[Value], links: Positions | slice = slice(None)) -> NDArray[Value]:
        """For some links, by default all, the value of the link's device.

        :param values: of the devices, shape (D,).
        """
        # To repeat values for all links takes less than half of the time of looking up each.
        return np.repeat(values, self.counts) if isinstance(links, slice) else values[self.owners[links]]

    def _of_devices(self, flags: Sequence[bool]) -> Mask:
        """A flag of each pool as one of each device, shape (D,)."""
        sizes = np.array([pool.nodes * pool.devices for pool in self._pools], dtype=np.int64)
        return np.repeat(np.array(flags, dtype=np.bool_), sizes)

    @cached_property
    def nodes(self) -> Positions:
        """The node of each device, shape (D,)."""
        of_pools = np.array([(pool.devices, pool.nodes) for pool in self._pools], dtype=np.int64).reshape(-1, 2)
        sizes = np.repeat(of_pools[:, 0], of_pools[:, 1])
        return np.repeat(np.arange(len(sizes)), sizes)

    def of_same_nodes(self, devices: Mask) -> Mask:
        """All devices of the nodes of some devices, shape (D,): what happens to a link concerns its whole node."""
        found = np.zeros(len(devices), dtype=np.bool_)
        found[self.nodes[devices]] = True
        return found[self.nodes]

    @cached_property
    def switched(self) -> Mask:
        """Devices that exchange traffic with the others of their nodes over switches, shape (D,)."""
        return self._of_devices([pool.has_dynamics and pool.switches > 0 and pool.devices > 1 for pool in self._pools])

    @cached_property
    def meshed(self) -> Mask:
        """Devices whose links lead to other devices, or out of the node, shape (D,)."""
        return self._of_devices([pool.is_meshed for pool in self._pools])

    @cached_property
    def owners(self) -> Positions:
        """The device of each link, shape (L,)."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    @cached_property
    def numbers(self) -> _SmallNumbers:
        """The number of each link on its device, shape (L,)."""
        return (np.arange(self.count) - self.firsts[self.owners]).astype(np.int32)

    @cached_property
    def bytes_per_second(self) -> Floats:
        """The capacity of each link in each direction, 0 if not known: shape (L,)."""
        each = [(pool.bytes_per_second / max(pool.per_device, 1), pool) for pool in self._pools]
        rows = [np.full(pool.nodes * pool.devices * pool.per_device, most) for most, pool in each]
        return np.concatenate([np.empty(0), *rows])  # a fleet may have no nodes, yet

    @cached_property
    def remotes(self) -> Positions:
        """The link at the other end of each, -1 if that is no device of the node: shape (L,)."""
        found, first = [np.zeros(0, dtype=np.int64)], 0
        for pool in self._pools:
            if pool.links is None:
                continue
            ends = other_ends(pool.links, pool.devices)
            bases = first + np.arange(pool.nodes) * len(ends)
            found.append(np.where(ends == NOWHERE, NOWHERE, ends + bases[:, np.newaxis]).ravel())
            first += pool.nodes * len(ends)
        return np.concatenate(found)

    @cached_property
    def switches(self) -> Positions:
        """The switch of each link, -1 for none: shape (L,). Links are assigned to switches in turn."""
        found, first = [np.zeros(0, dtype=np.int64)], 0
        for pool in self._pools:
            size = pool.devices * pool.per_device
            if not pool.switches:
                found.append(np.full(pool.nodes * size, NOWHERE))
                continue
            local = np.tile(np.arange(pool.per_device) % pool.switches, pool.devices)
            sets = np.arange(pool.nodes)[:, np.newaxis] // pool.sharing
            found.append((local + first + sets * pool.switches).ravel())
            first += pool.sets * pool.switches
        return np.concatenate(found)

    @cached_property
    def switch_numbers(self) -> _SmallNumbers:
        """The number of each link's switch among those of its node, meaningless for links to none: shape (L,)."""
        firsts = np.zeros(len(self.counts), dtype=np.int64)
        have = self.counts > 0
        firsts[have] = self.switches[self.firsts[have]]
        return (self.switches - self.each(firsts)).astype(np.int32)

    @cached_property
    def ports(self) -> _SmallNumbers:
        """The switch port of each link, -1 for none: shape (L,)."""
        ports = np.full(self.count, NOWHERE, dtype=np.int32)
        to_switch = np.flatnonzero(self.switches >= 0)
        order = to_switch[np.argsort(self.switches[to_switch], kind="stable")]
        switches = self.switches[order]
        ports[order] = np.arange(len(order)) - np.searchsorted(switches, switches)
        return ports

    @cached_property
    def switch_sets(self) -> Positions:
        """The number of the node or rack of each switch, ascending: shape (S,)."""
        sets = [np.full(pool.sets, pool.switches) for pool in self._pools if pool.switches]
        sizes = np.concatenate([np.zeros(0, dtype=np.int64), *sets])
        return np.repeat(np.arange(len(sizes)), sizes)

    def switches_of(self, device: int) -> range:
        """The switches of a device's node, or of its rack."""
        links = self.of(device)
        first = int(self.switches[links.start]) if links else NOWHERE
        if first < 0:
            return range(0)
        # The first link of each device leads to the first switch.
        return range(first, int(np.searchsorted(self.switch_sets, self.switch_sets[first], side="right")))


def _of_pool(pool: PoolSpec, nodes: int) -> Iterator[_Pool]:
    board, racks = pool.device_type, pool.racks
    carried = board.dynamics.fabric_bytes_per_second if board.dynamics else 0.0
    links, has_dynamics = board.connections.links, board.dynamics is not None
    if racks is None or not racks.switch_trays:
        yield _Pool(nodes, pool.devices_per_node, links, carried, has_dynamics)
        return
    whole, rest = divmod(nodes, racks.trays)
    gpus = racks.trays * pool.devices_per_node
    size = racks.partition or gpus
    if whole:
        yield _Pool(whole * (gpus // size), size, links, carried, has_dynamics, gpus // size)
    if rest:
        yield _Pool(1, rest * pool.devices_per_node, links, carried, has_dynamics)
