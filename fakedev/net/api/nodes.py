"""/api/v1/nodes and /api/v1/identities: who there is, and how they are shown."""

from __future__ import annotations

from twisted.web.resource import Resource

from fakedev.net.api.topology import describe_topology
from fakedev.net.fleet.describe import describe_node
from fakedev.net.http.api import ApiResource, counted, missing_node, page_of
from fakedev.net.http.query import argument
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.response import HttpError, Response, json_response
from fakedev.net.web.page_cache import Pages
from fakedev.sim.entities.roster import RosterNode
from fakedev.sim.fleet import Fleet


class Nodes(ApiResource):
    """The nodes; ``pool``, ``limit`` and ``offset`` choose some."""

    query = ("pool", "limit", "offset")

    def __init__(self, fleet: Fleet, pages: Pages) -> None:
        super().__init__()
        self._fleet = fleet
        self._pages = pages

    def getChild(self, path: bytes, request: GuardedRequest) -> Resource:
        """A node by name."""
        if not path and not request.postpath:
            return self
        name, roster = path.decode("utf-8", "replace"), self._fleet.roster
        node = roster.node(name)
        return missing_node(roster, name) if node is None else NodeItem(self._fleet, node, self._title(node))

    def get(self, request: GuardedRequest) -> Response:
        """The nodes in the order of the configuration."""
        pool = argument(request, "pool")
        pools = list(dict.fromkeys(each.name for each in self._fleet.roster.pools))
        if pool and pool not in pools:
            raise HttpError(404, f"no pool {pool[:100]!r}: {counted(pools)}", "unknown-name", "pool")
        nodes = [node for node in self._fleet.roster.shown if pool in ("", node.pool.name)]
        shown = [describe_node(nodes[place], self._title(nodes[place])) for place in page_of(request, len(nodes))]
        return json_response({"nodes": shown, "total": len(nodes)})

    def _title(self, node: RosterNode) -> str:
        return self._pages.identities[node.pool.name].title


class NodeItem(ApiResource):
    """One node."""

    isLeaf = True

    def __init__(self, fleet: Fleet, node: RosterNode, title: str) -> None:
        super().__init__()
        self._fleet = fleet
        self._node = node
        self._title = title

    def get(self, request: GuardedRequest) -> Response:
        """The node, and how its devices are connected."""
        topology = describe_topology(self._fleet, self._node)
        return json_response({**describe_node(self._node, self._title), "topology": topology})


class Identities(ApiResource):
    """The identities that the fleet shows, and what they lack."""

    isLeaf = True

    def __init__(self, fleet: Fleet, pages: Pages) -> None:
        super().__init__()
        self._fleet = fleet
        self._pages = pages

    def get(self, request: GuardedRequest) -> Response:
        """Each identity with its families, those that no device fills, and what it does not cover."""
        quantities = self._fleet.quantity_names()
        unique = {identity.title: identity for identity in self._pages.identities.values()}
        shown = [
            {
                "identity": title,
                "content-type": identity.content_type,
                "families": [family.name for family in identity.families],
                "absent": identity.absent_families(quantities),
                "conditional": identity.conditional_families(),
                "not-covered": list(identity.not_covered),
            }
            for title, identity in unique.items()
        ]
        return json_response({"identities": shown})
