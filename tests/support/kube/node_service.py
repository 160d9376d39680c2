"""A service for the node port, in memory, and views of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fakedev.base.errors import Refused
from fakedev.kubernetes.nodes.node_port import NodeSlot
from fakedev.kubernetes.nodes.node_view import Allocation, NodeView, PreparedDevice, ViewedSlot

GPU = "nvidia.com/gpu"
SLOTS = tuple(ViewedSlot(f"GPU-{number}", numa_node=number // 2) for number in range(4))
#: Four boards on two NUMA nodes.
VIEW = NodeView("a", {GPU: SLOTS})


def struck(view: NodeView, place: int, reason: str = "XID 79") -> NodeView:
    """The view with one unhealthy board."""
    slots = list(view.resources[GPU])
    slots[place] = replace(slots[place], unhealthy=reason)
    return replace(view, resources={**view.resources, GPU: tuple(slots)})


class MemoryNodeService:
    """Knows some nodes, and notes what it is told. It prefers the last devices.

    :param changed: called whenever it is told something.
    :ivar slots: of the nodes that the fleet has.
    :ivar reports: the reports of each node, oldest first.
    :ivar starting: the devices that the last report of each node has besides.
    :ivar reserved: the devices that were reserved; those in `claimed` are refused.
    :ivar restarts: the nodes whose plugins were started.
    :ivar registrations: of each node the resources that its kubelet has taken.
    """

    def __init__(self, *views: NodeView, changed: Callable[[], None] = lambda: None) -> None:
        self.views = {view.node: view for view in views}
        self.slots: dict[str, NodeSlot] = {}
        self.claims: dict[tuple[str, str, str], list[PreparedDevice]] = {}
        self.attached: list[tuple[str, Callable[[NodeView], None]]] = []
        self.reports: dict[str, list[list[Allocation]]] = {}
        self.starting: dict[str, list[str]] = {}
        self.reserved: list[str] = []
        self.claimed: set[str] = set()
        self.restarts: list[str] = []
        self.registrations: dict[str, list[str]] = {}
        self._changed = changed

    def change(self, view: NodeView) -> None:
        """Tell who is attached of a new view."""
        self.views[view.node] = view
        for node, tell in list(self.attached):
            if node == view.node:
                tell(view)

    def attach(self, node: str, tell: Callable[[NodeView], None]) -> NodeView:
        """See NodeService."""
        if node not in self.views:
            raise Refused("unknown-name", f"node: no {node!r} is simulated")
        self.attached.append((node, tell))
        self._changed()
        return self.views[node]

    def detach(self, node: str, tell: Callable[[NodeView], None]) -> None:
        """See NodeService."""
        self.attached.remove((node, tell))
        self._changed()

    def restarted(self, node: str) -> None:
        """See NodeService."""
        self.restarts.append(node)
        self._changed()

    def registered(self, node: str, resources: Sequence[str]) -> None:
        """See NodeService."""
        self.registrations[node] = list(resources)
        self._changed()

    def report(self, node: str, allocations: Sequence[Allocation], starting: Sequence[str]) -> None:
        """See NodeService."""
        self.reports.setdefault(node, []).append(list(allocations))
        self.starting[node] = list(starting)
        self._changed()

    def reserve(self, node: str, ids: Sequence[str]) -> None:
        """See NodeService."""
        if self.claimed & {*ids}:
            raise Refused("busy", "ids: a claim has one", "ids")
        self.reserved += ids
        self._changed()

    def prefer(
        self, node: str, resource: str, available: Sequence[str], must: Sequence[str], count: int
    ) -> Sequence[str]:
        """See NodeService."""
        known = {slot.id for slot in self.views[node].resources.get(resource, ())}
        if not {*available} <= known:
            raise Refused("unknown-name", f"available: {node} has no {min({*available} - known)}")
        rest = [each for each in available if each not in must]
        return [*must, *rest[len(rest) - (count - len(must)) :]]

    def prepare(self, node: str, namespace: str, claim: str, uid: str) -> Sequence[PreparedDevice]:
        """See NodeService."""
        if (namespace, claim, uid) not in self.claims:
            raise Refused("unknown-name", f"claim: no {namespace}/{claim} with uid {uid} is allocated on {node}")
        return self.claims[namespace, claim, uid]

    def boards(self, node: str) -> NodeSlot:
        """See NodeService."""
        if node not in self.slots:
            raise Refused("unknown-name", f"the fleet has no node {node!r} yet", "node")
        return self.slots[node]
