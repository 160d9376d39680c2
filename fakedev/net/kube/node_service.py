"""What the node port asks: the views of nodes, and what their kubelets report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fakedev.kube.cluster import Cluster
from fakedev.kube.node_view import Allocation, NodeView, PreparedDevice
from fakedev.kube.placement import preferred
from fakedev.net.kube.node_slots import NodeSlot, NodeSlots
from fakedev.spec.errors import Refused, did_you_mean

Tell = Callable[[NodeView], None]


class ClusterNodes:
    """The nodes of a cluster, for their fakedev-node.

    :param changed: called when a report may have changed the cluster.
    :param restarted: called with the name of a node whose plugins were started.
    :param slots: of the boards of nodes, for NVML.
    """

    def __init__(
        self, cluster: Cluster, changed: Callable[[], None], restarted: Callable[[str], None], slots: NodeSlots
    ) -> None:
        self._cluster = cluster
        self._slots = slots
        self._changed = changed
        self._restarted = restarted
        self._listeners: dict[str, list[Tell]] = {}
        self._registered: dict[str, Sequence[str]] = {}

    @property
    def attached_count(self) -> int:
        """How many nodes have a fakedev-node that is connected."""
        return len(self._listeners)

    @property
    def registered_count(self) -> int:
        """How many nodes have a kubelet that has taken a plugin."""
        return sum(bool(resources) for resources in self._registered.values())

    def attach(self, node: str, tell: Tell) -> NodeView:
        """See NodeService."""
        view = self._view(node)
        self._listeners.setdefault(node, []).append(tell)
        return view

    def detach(self, node: str, tell: Tell) -> None:
        """See NodeService."""
        remaining = [each for each in self._listeners.pop(node, []) if each != tell]
        if remaining:
            self._listeners[node] = remaining
        else:
            self._registered.pop(node, None)
            self._slots.forget(node)

    def tell_changes(self, names: Iterable[str]) -> None:
        """Tell those who are attached the views that have changed."""
        for name in names:
            listeners = self._listeners.get(name, ())
            view = self._cluster.view(name) if listeners else None
            for tell in list(listeners):
                # A node that is no longer simulated offers nothing.
                tell(NodeView(name) if view is None else view)

    def restarted(self, node: str) -> None:
        """See NodeService."""
        self._restarted(node)
        self._changed()

    def registered(self, node: str, resources: Sequence[str]) -> None:
        """See NodeService."""
        self._registered[node] = resources

    def report(self, node: str, allocations: Sequence[Allocation]) -> None:
        """See NodeService."""
        self._cluster.reported(node, allocations)
        self._changed()

    def prefer(
        self, node: str, resource: str, available: Sequence[str], must: Sequence[str], count: int
    ) -> Sequence[str]:
        """See NodeService."""
        self._view(node)
        devices = self._cluster.devices(node)
        assert devices is not None
        slots = {slot.id: slot for slot in devices.slots if slot.resource == resource}
        for each in (*available, *must):
            if each not in slots:
                raise Refused("unknown-name", f"node {node} has no {each[:100]} of {resource}", "available")
        chosen = preferred(devices, [slots[each] for each in available], [slots[each] for each in must], count)
        return [slot.id for slot in chosen]

    def prepare(self, node: str, namespace: str, claim: str, uid: str) -> Sequence[PreparedDevice]:
        """See NodeService."""
        self._view(node)
        return self._cluster.prepared(node, namespace, claim, uid)

    def boards(self, node: str) -> NodeSlot:
        """See NodeService."""
        self._view(node)
        return self._slots.slot(node)

    def _view(self, node: str) -> NodeView:
        view = self._cluster.view(node)
        if view is None:
            known = did_you_mean(node, (each.name for each in self._cluster.nodes()))
            hint = self._cluster.problems.get(node) or f"no node of the cluster with this name has the label{known}"
            raise Refused("unknown-name", f"node {node!r} is not simulated: {hint}", "node")
        return view
