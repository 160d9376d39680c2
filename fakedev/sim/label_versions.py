"""When the labels of each node last changed: pages keep label texts by this."""

from __future__ import annotations

from fakedev.sim.roster import RosterNode


class LabelVersions:
    """Numbers that grow with every change of a node's labels.

    :param latest: where to begin.
    :ivar latest: how many changes there were anywhere.
    """

    def __init__(self, latest: int = 0) -> None:
        self.latest = latest
        self._of: dict[RosterNode, int] = {}

    def change(self, node: RosterNode) -> None:
        """A label of the node has changed."""
        self.latest += 1
        self._of[node] = self.latest

    def of(self, node: RosterNode) -> int:
        """A number that is another whenever a label of the node has changed."""
        return self._of.get(node, 0)
