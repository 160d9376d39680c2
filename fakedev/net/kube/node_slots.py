"""What fakedev-node writes into the file for NVML of its node: a slot of the present tick."""

from __future__ import annotations

from typing import NamedTuple

from fakedev.exposition.nvml.image import SlotImage
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import Refused
from fakedev.spec.nvml_layout import Counts


class NodeSlot(NamedTuple):
    """The bytes of a slot, and what it has room for."""

    counts: Counts
    content: bytes


class NodeSlots:
    """The slots of the nodes whose fakedev-node asks for them. Each image is made once, and followed tick by tick.

    Workloads have no process there: their clients are in another container.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._compiled = fleet.compiled
        self._images: dict[str, SlotImage] = {}

    def slot(self, node: str) -> NodeSlot:
        """The present tick of a node.

        :raises Refused: ``unknown-name``, when the fleet has no such node (yet).
        """
        fleet = self._fleet
        if self._compiled is not fleet.compiled:
            self._compiled = fleet.compiled
            self._images.clear()
        image = self._images.get(node)
        if image is None or not image.update():
            found = fleet.roster.node(node)
            if found is None:
                raise Refused("unknown-name", f"the fleet has no node {node!r} yet", "node")
            image = self._images[node] = SlotImage(fleet, [found])
        return NodeSlot(image.counts, bytes(image.content))

    def forget(self, node: str) -> None:
        """Nobody asks for this node any more."""
        self._images.pop(node, None)
