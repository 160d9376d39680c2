"""Nodes that look like hosts, for agents that know only host and port: a name or an address says which is meant."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network

from twisted.web.resource import Resource

from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import GuardedResource
from fakedev.net.http.response import HttpError
from fakedev.net.http.statistics import PageStatistics
from fakedev.net.web.metrics_page import MetricsPage
from fakedev.net.web.page_cache import CachedPage, Pages
from fakedev.net.web.selection import Selection


class HostMetricsPage(MetricsPage):
    """The page of the node that the Host header names, by its whole name or up to the first dot; else of all nodes.

    :param selection: the nodes that are shown, and how.
    """

    def __init__(self, pages: Pages, statistics: PageStatistics, selection: Selection) -> None:
        super().__init__(pages.fleet_page(selection), statistics)
        self._pages = pages
        self._selection = selection

    def page(self, request: GuardedRequest) -> CachedPage:
        """The page that is asked for.

        :raises HttpError: 404 for that of a node of another shard.
        """
        host = (request.header(b"host") or b"").decode("latin-1").partition(":")[0]
        roster = self._pages.fleet.roster
        named = (roster.whole or roster).host(host)
        if named is None or not self._selection.has(named):
            return super().page(request)
        node = roster.node(named.name)
        if node is None:
            raise HttpError(404, "nothing is here")
        return self._pages.node_page(node, self._selection)


class AddressedNodes(GuardedResource):
    """The exporters of nodes that each have an address: the first of a network is the first node's, and so on.

    :param exporter: the tree of a node's exporter, of its page.
    """

    def __init__(
        self,
        pages: Pages,
        network: IPv4Network,
        exporter: Callable[[CachedPage], Resource],
        selection: Selection,
    ) -> None:
        super().__init__()
        self._pages = pages
        self._first = int(network.network_address) + 1
        self._exporter = exporter
        roster = pages.fleet.roster
        # A node has the same address in every shard.
        self._nodes = [roster.node(node.name) for node in (roster.whole or roster).nodes if selection.has(node)]
        self._selection = selection

    def getChild(self, path: bytes, request: GuardedRequest) -> Resource:
        """What the exporter of the node has there to which the connection was made; nothing at any other address."""
        place = int(IPv4Address(request.host.host)) - self._first
        node = self._nodes[place] if 0 <= place < len(self._nodes) else None
        if node is None:
            return super().getChild(path, request)
        page = self._pages.node_page(node, self._selection)
        return self._exporter(page).getChildWithDefault(path, request)
