"""The node port: fakedev-node asks for the devices of its node, and reports which container has which of them.

It uses the views of nodes, and what their kubelets report. The file for NVML of a node gets a slot of the present
tick.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from twisted.internet.interfaces import IReactorTime

from fakedev.base.errors import FieldError, Refused, did_you_mean
from fakedev.fleet.fleet import Fleet
from fakedev.kubernetes.cluster import Cluster
from fakedev.kubernetes.devices.allocation import preferred
from fakedev.kubernetes.nodes.node_view import (
    MAX_ALLOCATIONS,
    MAX_PARTS,
    MAX_VIEW_BYTES,
    NODE_GRAMMAR,
    Allocation,
    NodeView,
    PreparedDevice,
    allocations_from,
    plugin_word,
    slot_fields,
    to_fields,
    view_changed,
)
from fakedev.kubernetes.nodes.simulated_node import ClusterNode
from fakedev.lines.framing import JSON_LINES
from fakedev.lines.grammar import ProtocolError, Request
from fakedev.lines.json_lines import Reply, encode_error, load_object
from fakedev.lines.protocol import PortProtocol
from fakedev.lines.server import LineServerFactory
from fakedev.lines.tokens import TokenGate
from fakedev.lines.words import quote_word
from fakedev.nvml.image import SlotImage
from fakedev.nvml.records import Counts


class NodeSlot(NamedTuple):
    """The bytes of a slot, and what it has room for."""

    counts: Counts
    content: bytes


class NodeSlots:
    """The slots of the nodes whose fakedev-node reads them. Each image is made once, and followed tick by tick.

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
        self._images.pop(node, None)


class NodeProtocol(PortProtocol):
    """A connection to the node port, which belongs to one node. Its verbs are in ``NODE_GRAMMAR``."""

    grammar = NODE_GRAMMAR
    factory: NodePortFactory
    _node = ""
    #: The node that the peer's token is for; empty: any.
    _only_node = ""

    def __init__(self, factory: NodePortFactory, gate: TokenGate) -> None:
        super().__init__(factory, gate)
        self._nodes = factory.nodes
        self._parts: list[list[Allocation]] = []  # of an incomplete report

    def object_received(self, message: bytes) -> None:
        raise ProtocolError("bad-argument", "op: missing", fatal=True)

    def encode_bare_error(self, error: ProtocolError) -> bytes:
        return encode_error(error, JSON_LINES)

    def is_working(self) -> bool:
        """Whether the connection waits for changes of a node."""
        return bool(self._node)

    def peer_left(self) -> None:
        if self._node:
            self._nodes.detach(self._node, self._notify_view)
            self._node = ""

    def check_token(self, token: str) -> str:
        """Also the token for one node admits a peer, which then has only that node."""
        name = token.rpartition(":")[0]
        text = self._gate.check(token, self.origin, name)
        self._only_node = "" if self._gate.is_open or self._gate.has(token) else name
        return text

    def do_attach(self, request: Request) -> Reply:
        node = str(request.arguments["node"])
        if self._only_node not in ("", node):
            raise ProtocolError("denied", f"node: the token of this connection is for {self._only_node}")
        if self._node not in ("", node):
            text = f"node: this connection belongs to {self._node}; open another one"
            raise ProtocolError("bad-argument", text)
        if self._node:
            self._nodes.detach(node, self._notify_view)
            self._node = ""
        view = self._nodes.attach(node, self._notify_view)
        self._node = node
        shown = to_fields(view)
        if _is_too_long(shown):
            self.peer_left()
            text = f"the view of {node} is longer than {MAX_VIEW_BYTES} bytes: it has too many devices"
            raise ProtocolError("full", text)
        return Reply(lines=list(_view_lines(view)), data={"view": shown})

    def do_restarted(self, request: Request) -> Reply:
        self._nodes.restarted(self._attached())
        return Reply()

    def do_registered(self, request: Request) -> Reply:
        self._nodes.registered(self._attached(), cast("list[str]", request.arguments.get("resources", [])))
        return Reply()

    def do_report(self, request: Request) -> Reply:
        """Take a part of a report; the last one completes it."""
        node, has_more = self._attached(), bool(request.arguments.get("more"))
        parts, self._parts = self._parts, []
        parts.append(allocations_from(_listed(request.arguments["allocations"])))
        reported = [allocation for part in parts for allocation in part]
        if len(reported) > MAX_ALLOCATIONS or len(parts) > MAX_PARTS - has_more:
            text = f"allocations: a report has at most {MAX_ALLOCATIONS} allocations in {MAX_PARTS} parts"
            raise ProtocolError("full", text)
        if has_more:
            self._parts = parts
        else:
            self._nodes.report(node, reported, cast("list[str]", request.arguments.get("starting", [])))
        return Reply(f"{len(reported)} allocations", data={"allocations": len(reported)})

    def do_reserve(self, request: Request) -> Reply:
        self._nodes.reserve(self._attached(), cast("list[str]", request.arguments["ids"]))
        return Reply()

    def do_prefer(self, request: Request) -> Reply:
        arguments: Mapping[str, Any] = request.arguments
        available, must, count = arguments["available"], arguments.get("must", []), arguments["count"]
        if len({*available}) < len(available) or len({*must}) < len(must):
            raise FieldError("available", "a device is there twice")
        if not {*must} <= {*available}:
            raise FieldError("must", "has a device that is not available")
        if not len(must) <= count <= len(available):
            raise FieldError("count", f"must be {len(must)} to {len(available)}")
        ids = list(self._nodes.prefer(self._attached(), arguments["resource"], available, must, count))
        return Reply(",".join(ids), data={"ids": ids})

    def do_prepare(self, request: Request) -> Reply:
        namespace, claim, uid = (str(request.arguments[name]) for name in ("namespace", "claim", "uid"))
        devices = self._nodes.prepare(self._attached(), namespace, claim, uid)
        lines = [" ".join(map(quote_word, (device.request, device.pool, device.device))) for device in devices]
        return Reply(lines=lines, data={"devices": [to_fields(device) for device in devices]})

    def do_boards(self, request: Request) -> Reply:
        slot = self._nodes.boards(self._attached())
        return Reply(f"{len(slot.content)} bytes", data=slot_fields(slot.counts, slot.content))

    def do_ping(self, request: Request) -> Reply:
        return Reply()

    def _attached(self) -> str:
        if not self._node:
            raise ProtocolError("bad-argument", "name the node of this connection first: attach NODE")
        return self._node

    def _notify_view(self, view: NodeView) -> None:
        shown = to_fields(view)
        if _is_too_long(shown):
            self.log.error(
                "the view of {node} is longer than {limit} bytes: its fakedev-node is not told of it",
                node=view.node, limit=MAX_VIEW_BYTES,
            )  # fmt: skip
            return
        slots = [slot for _, slot in view.slots]
        unhealthy = sum(bool(slot.unhealthy) for slot in slots)
        self.notify(view_changed(view.node, view.is_plugin_down, len(slots), unhealthy, shown))


class NodePortFactory(LineServerFactory):
    """Serves one node port.

    :param options: those of the line server, as ``tokens``.
    """

    protocol = NodeProtocol
    waits_for_ticks = True

    def __init__(self, nodes: ClusterNodes, clock: IReactorTime, **options: Any) -> None:
        super().__init__(clock, **options)
        self.nodes = nodes


def _is_too_long(shown: Mapping[str, object]) -> bool:
    # As it is sent: characters that are not ASCII have six bytes. There are other fields around the view.
    return len(json.dumps(shown, separators=(",", ":"))) + 100 > MAX_VIEW_BYTES


def _view_lines(view: NodeView) -> Iterator[str]:
    yield f"plugin={plugin_word(view.is_plugin_down)} driver={view.driver}"
    for resource, slot in view.slots:
        numa = "" if slot.numa_node is None else f" numa-node={slot.numa_node}"
        state = f"unhealthy{numa} reason={quote_word(slot.unhealthy)}" if slot.unhealthy else f"healthy{numa}"
        yield f"{quote_word(resource)} {quote_word(slot.id)} {state}"


def _listed(value: object) -> object:
    """The list of a report, which words give as JSON."""
    if not isinstance(value, str):
        return value
    return load_object(b'{"allocations":%b}' % value.encode("utf-8", "surrogatepass"))["allocations"]


Notify = Callable[[NodeView], None]


class ClusterNodes:
    """The nodes of a cluster, for their fakedev-node. Methods may raise :class:`~fakedev.base.errors.Refused`.

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
        self._listeners: dict[str, list[Notify]] = {}
        self._registered: dict[str, Sequence[str]] = {}

    @property
    def attached_count(self) -> int:
        return len(self._listeners)

    @property
    def registered_count(self) -> int:
        return sum(bool(resources) for resources in self._registered.values())

    def attach(self, node: str, notify: Notify) -> NodeView:
        """The view of a node.

        :param notify: called with each later view, until :meth:`detach`.
        :raises Refused: ``unknown-name``, when the node is not simulated.
        """
        view = self._node(node).view()
        self._listeners.setdefault(node, []).append(notify)
        return view

    def detach(self, node: str, notify: Notify) -> None:
        """Call ``notify`` no more; what was reported stays."""
        remaining = [listener for listener in self._listeners.pop(node, []) if listener != notify]
        if remaining:
            self._listeners[node] = remaining
        else:
            self._registered.pop(node, None)
            self._cluster.nodes.registered(node, ())
            self._slots.forget(node)

    def notify_changes(self, names: Iterable[str]) -> None:
        """Notify those who are attached of the views that have changed."""
        for name in names:
            listeners = list(self._listeners.get(name, ()))
            node = self._cluster.nodes.get(name) if listeners else None
            view = NodeView(name) if node is None else node.view()  # one that is no longer simulated offers nothing
            for notify in listeners:
                notify(view)

    def restarted(self, node: str) -> None:
        self._restarted(node)
        self._changed()

    def registered(self, node: str, resources: Sequence[str]) -> None:
        """The kubelet has taken the plugins of these resources, and no others; a DRA plugin counts by its driver."""
        self._registered[node] = resources
        self._cluster.nodes.registered(node, resources)
        self._changed()

    def report(self, node: str, allocations: Sequence[Allocation], starting: Sequence[str]) -> None:
        """What PodResources of a node says, whole.

        :param starting: the ids of devices that containers were given, which it does not say yet.
        """
        self._cluster.pods.reported(node, allocations, starting)
        self._changed()

    def reserve(self, node: str, ids: Sequence[str]) -> None:
        """A device plugin is about to give containers these devices.

        :raises Refused: ``unknown-name`` for a device that the node does not have; ``busy``, when a claim has one.
        """
        self._cluster.pods.reserve(self._node(node), ids)
        self._changed()

    def prefer(
        self, node: str, resource: str, available: Sequence[str], must: Sequence[str], count: int
    ) -> Sequence[str]:
        """Which ``count`` of the available devices of a resource a container should be given.

        :raises Refused: ``unknown-name`` for a resource or device that the node does not have.
        """
        found = self._node(node)
        slots = {slot.id: slot for slot in found.devices.slots if slot.resource == resource}
        for device_id in (*available, *must):
            if device_id not in slots:
                raise Refused("unknown-name", f"node {node} has no {device_id[:100]} of {resource}", "available")
        offered = [slots[each] for each in available]
        # The kubelet may not know yet what claims have.
        free = [slot for slot in offered if slot.id in must or found.ledger.claim_of(slot) is None]
        choice = free if len(free) >= count else offered
        return [slot.id for slot in preferred(found.devices, choice, [slots[each] for each in must], count)]

    def prepare(self, node: str, namespace: str, claim: str, uid: str) -> Sequence[PreparedDevice]:
        """The devices that a claim has of the node's drivers.

        :raises Refused: ``unknown-name``, when its allocation is not known (yet).
        """
        self._node(node)
        return self._cluster.pods.prepared(node, namespace, claim, uid)

    def boards(self, node: str) -> NodeSlot:
        """The present tick of the node's boards, as the file for NVML has it.

        :raises Refused: ``unknown-name``, when the fleet does not have the node (yet).
        """
        self._node(node)
        return self._slots.slot(node)

    def _node(self, name: str) -> ClusterNode:
        node = self._cluster.nodes.get(name)
        if node is None:
            known = did_you_mean(name, (node.name for node in self._cluster.nodes))
            hint = self._cluster.nodes.problems.get(name)
            hint = hint or f"no node of the cluster with this name has the label{known}"
            raise Refused("unknown-name", f"node {name!r} is not simulated: {hint}", "node")
        return node
