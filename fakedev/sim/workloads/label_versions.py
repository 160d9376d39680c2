"""When the labels of each node last changed: pages keep label texts by this."""

from __future__ import annotations

from collections.abc import Mapping

from fakedev.sim.entities.roster import RosterNode


class LabelVersions:
    """Numbers that grow with every change of a node's labels.

    :param latest: where to begin.
    :ivar latest: how many changes there were anywhere.
    """

    def __init__(self, latest: int = 0) -> None:
        self.latest = latest
        self._of: dict[RosterNode, int] = {}

    def carry(self, before: LabelVersions, same: Mapping[RosterNode, RosterNode]) -> None:
        """Nodes that are the same in all that is not counted here as they were before have the numbers from there.

        :param same: what such a node was before.
        """
        self._of = {node: before._of[was] for node, was in same.items() if was in before._of}

    def change(self, node: RosterNode) -> None:
        """A label of the node has changed."""
        self.latest += 1
        self._of[node] = self.latest

    def of(self, node: RosterNode) -> int:
        """A number that is another whenever a label of the node has changed."""
        return self._of.get(node, 0)
