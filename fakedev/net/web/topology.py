"""/topology: the fleet as the topology server of run-ai's fake-gpu-operator describes it."""

from __future__ import annotations

from fakedev.net.fleet.operator_topology import OperatorTopology
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import GuardedResource
from fakedev.net.http.response import Response, json_response
from fakedev.net.web.page_cache import Selection
from fakedev.sim.entities.roster import RosterNode
from fakedev.sim.entities.selectors import no_node
from fakedev.sim.fleet import Fleet
from fakedev.spec import web_paths

#: Why there is nothing, where the addresses are off.
NO_TOPOLOGY = "there is no topology of fake-gpu-operator (--topology FILE), and kubernetes.compatibility does not ask"


class TopologyPage(GuardedResource):
    """The pools."""

    def __init__(self, topology: OperatorTopology, selection: Selection) -> None:
        self._topology = topology
        self._selection = selection

    def get(self, request: GuardedRequest) -> Response:
        return json_response(self._topology.cluster(self._selection.pool))


class NodeTopologies(GuardedResource):
    """Below it a resource for each node."""

    def __init__(self, topology: OperatorTopology, fleet: Fleet, selection: Selection) -> None:
        self._topology = topology
        self._fleet = fleet
        self._selection = selection

    def find_child(self, name: bytes, request: GuardedRequest) -> GuardedResource | None:
        node = self._fleet.roster.node(name.decode("utf-8", "replace"))
        if node is None or not self._selection.has(node):
            return None
        return _NodeTopologyPage(self._topology, node)

    def missing(self, request: GuardedRequest) -> str:
        name = request.postpath[0].decode("utf-8", "replace") if request.postpath else ""
        if not name:
            shown = self._fleet.roster.shown
            if not shown:
                return "there is no node: the cluster has none with the label"
            return f"nothing is here: name a node, as {web_paths.NODE_TOPOLOGY.at(NODE=shown[0].name)}"
        return no_node(name, self._fleet.roster, "").text


class _NodeTopologyPage(GuardedResource):
    """A node: its GPUs, and who uses them."""

    def __init__(self, topology: OperatorTopology, node: RosterNode) -> None:
        self._topology = topology
        self._node = node

    def get(self, request: GuardedRequest) -> Response:
        return json_response(self._topology.node(self._node))
