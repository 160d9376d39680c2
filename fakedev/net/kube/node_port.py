"""The node port: fakedev-node asks for the devices of its node, and reports who has which of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

from fakedev.kube.node_view import Allocation, NodeView, PreparedDevice, allocations_from, to_fields
from fakedev.net.kube.node_slots import NodeSlot
from fakedev.net.lines.peer import Peer
from fakedev.net.lines.server import LineServerFactory
from fakedev.spec.errors import FieldError
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Dialect
from fakedev.wire.grammar import Request
from fakedev.wire.node_messages import slot_fields
from fakedev.wire.node_verbs import (
    MAX_ALLOCATIONS,
    MAX_PARTS,
    MAX_VIEW_BYTES,
    NODE_GRAMMAR,
    plugin_word,
    view_changed,
)
from fakedev.wire.replies import Reply, encode_error
from fakedev.wire.strict_json import load_object
from fakedev.wire.words import quote_word


class NodeService(Protocol):
    """What knows the nodes of the cluster. Each method may raise :class:`~fakedev.spec.errors.Refused`."""

    def attach(self, node: str, tell: Callable[[NodeView], None]) -> NodeView:
        """The view of a node.

        :param tell: called with each later view, until :meth:`detach`.
        :raises Refused: ``unknown-name``, when the node is not simulated.
        """

    def detach(self, node: str, tell: Callable[[NodeView], None]) -> None:
        """Call ``tell`` no more; what was reported stays."""

    def restarted(self, node: str) -> None:
        """The plugins of a node were started (anew)."""

    def registered(self, node: str, resources: Sequence[str]) -> None:
        """The kubelet has taken the plugins of these resources, and no others; a DRA plugin counts by its driver."""

    def report(self, node: str, allocations: Sequence[Allocation]) -> None:
        """What PodResources says now, whole."""

    def prefer(
        self, node: str, resource: str, available: Sequence[str], must: Sequence[str], count: int
    ) -> Sequence[str]:
        """Which ``count`` of the available devices of a resource a container should be given.

        :raises Refused: ``unknown-name`` for a resource or device that the node does not have.
        """

    def prepare(self, node: str, namespace: str, claim: str, uid: str) -> Sequence[PreparedDevice]:
        """The devices that a claim has of the node's driver.

        :raises Refused: ``unknown-name``, when its allocation is not known (yet).
        """

    def boards(self, node: str) -> NodeSlot:
        """The present tick of the node's boards, as the file for NVML has it.

        :raises Refused: ``unknown-name``, when the fleet does not have the node (yet).
        """


class NodeSession:
    """One connection, which belongs to one node."""

    __slots__ = ("_node", "_parts", "_peer", "_reported", "_service")
    log = Logger()

    def __init__(self, service: NodeService, peer: Peer) -> None:
        self._service = service
        self._peer = peer
        self._node = ""
        self._reported: list[Allocation] = []  # the parts of an incomplete report
        self._parts = 0

    def request_received(self, request: Request) -> Reply:
        """Serve a verb by the method ``do_VERB``."""
        reply: Reply = getattr(self, f"do_{request.verb}")(request.arguments)
        return reply

    def object_received(self, message: bytes) -> None:
        """Refuse an object without a verb."""
        raise ProtocolError("bad-argument", "op: missing", fatal=True)

    def encode_bare_error(self, error: ProtocolError) -> bytes:
        """The error, in JSON."""
        return encode_error(error, Dialect.JSON_LINES)

    def is_working(self) -> bool:
        """Whether the connection waits for changes of a node."""
        return bool(self._node)

    def quit_received(self) -> None:
        """Nothing: what was reported stays."""

    def peer_left(self) -> None:
        """Tell it nothing more."""
        if self._node:
            self._service.detach(self._node, self._tell)
            self._node = ""

    def do_attach(self, arguments: Mapping[str, object]) -> Reply:
        """Name the node."""
        node = str(arguments["node"])
        if self._node not in ("", node):
            text = f"node: this connection belongs to {self._node}; open another one"
            raise ProtocolError("bad-argument", text)
        if self._node:
            self._service.detach(node, self._tell)
            self._node = ""
        view = self._service.attach(node, self._tell)
        self._node = node
        shown = to_fields(view)
        if _is_too_long(shown):
            self.peer_left()
            text = f"the view of {node} is longer than {MAX_VIEW_BYTES} bytes: it has too many devices"
            raise ProtocolError("full", text)
        return Reply(lines=list(_view_lines(view)), data={"view": shown})

    def do_restarted(self, arguments: Mapping[str, object]) -> Reply:
        """The plugins were started."""
        self._service.restarted(self._attached())
        return Reply()

    def do_registered(self, arguments: Mapping[str, Any]) -> Reply:
        """Some plugins are registered."""
        self._service.registered(self._attached(), arguments.get("resources", []))
        return Reply()

    def do_report(self, arguments: Mapping[str, object]) -> Reply:
        """Take a part of a report; the last one completes it."""
        node, has_more = self._attached(), bool(arguments.get("more"))
        reported, self._reported = self._reported, []
        parts, self._parts = self._parts + 1, 0
        reported += allocations_from(_listed(arguments["allocations"]))
        if len(reported) > MAX_ALLOCATIONS or parts > MAX_PARTS or (has_more and parts == MAX_PARTS):
            text = f"allocations: a report has at most {MAX_ALLOCATIONS} allocations in {MAX_PARTS} parts"
            raise ProtocolError("full", text)
        if has_more:
            self._reported, self._parts = reported, parts
        else:
            self._service.report(node, reported)
        return Reply(f"{len(reported)} allocations", data={"allocations": len(reported)})

    def do_prefer(self, arguments: Mapping[str, Any]) -> Reply:
        """Choose devices."""
        available, must, count = arguments["available"], arguments.get("must", []), arguments["count"]
        if len({*available}) < len(available) or len({*must}) < len(must):
            raise FieldError("available", "a device is there twice")
        if not {*must} <= {*available}:
            raise FieldError("must", "has a device that is not available")
        if not len(must) <= count <= len(available):
            raise FieldError("count", f"must be {len(must)} to {len(available)}")
        ids = list(self._service.prefer(self._attached(), arguments["resource"], available, must, count))
        return Reply(",".join(ids), data={"ids": ids})

    def do_prepare(self, arguments: Mapping[str, Any]) -> Reply:
        """Name the devices of a claim."""
        devices = self._service.prepare(
            self._attached(), arguments["namespace"], arguments["claim"], arguments["uid"]
        )  # fmt: skip
        lines = [" ".join(map(quote_word, (each.request, each.pool, each.device))) for each in devices]
        return Reply(lines=lines, data={"devices": [to_fields(each) for each in devices]})

    def do_boards(self, arguments: Mapping[str, object]) -> Reply:
        """Give a tick of the boards."""
        slot = self._service.boards(self._attached())
        return Reply(f"{len(slot.content)} bytes", data=slot_fields(slot.counts, slot.content))

    def do_ping(self, arguments: Mapping[str, object]) -> Reply:
        """Answer."""
        return Reply()

    def _attached(self) -> str:
        if not self._node:
            raise ProtocolError("bad-argument", "name the node of this connection first: attach NODE")
        return self._node

    def _tell(self, view: NodeView) -> None:
        shown = to_fields(view)
        if _is_too_long(shown):
            self.log.error(
                "the view of {node} is longer than {limit} bytes: its fakedev-node is not told of it",
                node=view.node, limit=MAX_VIEW_BYTES,
            )  # fmt: skip
            return
        slots = [slot for _, slot in view.slots]
        unhealthy = sum(bool(slot.unhealthy) for slot in slots)
        self._peer.notify(view_changed(view.node, view.is_plugin_down, len(slots), unhealthy, shown))


class NodePortFactory(LineServerFactory):
    """Serves one node port.

    :param options: those of the line server, as ``tokens``.
    """

    def __init__(self, service: NodeService, clock: IReactorTime, **options: Any) -> None:
        super().__init__(NODE_GRAMMAR, partial(NodeSession, service), clock, **options)


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
