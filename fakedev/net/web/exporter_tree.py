"""The tree of a vendor's exporter: what it has beside its metrics, in its words.

Nodes that look like hosts, for agents that know only host and port: a name or an address says which is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from html import escape
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from fakedev.exposition.identity import Identity
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import Folder, GuardedResource
from fakedev.net.http.response import HttpError, Response
from fakedev.net.http.statistics import PageStatistics, ScrapeStatistics
from fakedev.net.web.metrics_page import MetricsPage
from fakedev.net.web.page_cache import CachedPage, Pages
from fakedev.net.web.probes import Health, HealthPage
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
        exporter: Callable[[CachedPage], GuardedResource],
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

    def find_child(self, path: bytes, request: GuardedRequest) -> GuardedResource | None:
        """What the exporter of the node has there to which the connection was made; nothing at any other address."""
        place = int(IPv4Address(request.host.host)) - self._first
        node = self._nodes[place] if 0 <= place < len(self._nodes) else None
        if node is None:
            return None
        page = self._pages.node_page(node, self._selection)
        return self._exporter(page).child(path, request)

_PLAIN: Final = "text/plain; charset=utf-8"
_HTML: Final = "text/html; charset=utf-8"


class VendorHealth(GuardedResource):
    """/health as an exporter answers it: a word, or 503 with the reason."""

    def __init__(self, identity: Identity, health: Health) -> None:
        super().__init__()
        self._word = identity.health
        self._headers = (*identity.headers, *identity.health_headers)
        self._health = health

    def get(self, request: GuardedRequest) -> Response:
        """The word while the service is well."""
        reason = self._health()
        status, text = (200, self._word) if reason is None else (503, reason)
        return Response(status, text.encode(), _PLAIN, self._headers)


class Landing(GuardedResource):
    """/ of an exporter: its name, and the way to its metrics."""

    def __init__(self, identity: Identity) -> None:
        super().__init__()
        title = escape(identity.landing)
        html = (
            f"<html>\n<head><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n"
            f'<p><a href="./metrics">Metrics</a></p>\n</body>\n</html>\n'
        )
        self._response = Response(200, html.encode(), _HTML, identity.headers)

    def get(self, request: GuardedRequest) -> Response:
        """The page."""
        return self._response


def make_vendor_root(
    pages: Pages,
    scrapes: ScrapeStatistics,
    health: Health,
    selection: Selection,
    *,
    per_node: IPv4Network | None = None,
) -> GuardedResource:
    """The tree of a vendor's exporter: /metrics; /health and / in its words, where all identities have the same.

    :param per_node: each node has one of its addresses, with its own exporter.
    """
    identity = _common([selection.identity] if selection.identity else pages.identities.values())
    statistics = scrapes.page("/metrics")

    def exporter(metrics: MetricsPage) -> GuardedResource:
        if identity is None:
            return Folder(metrics=metrics, health=HealthPage(health))
        root = Folder(metrics=metrics, health=VendorHealth(identity, health) if identity.health else HealthPage(health))
        if identity.landing:
            root.put_child("", Landing(identity))
        return root

    if per_node is None:
        return exporter(HostMetricsPage(pages, statistics, selection))
    return AddressedNodes(pages, per_node, lambda page: exporter(MetricsPage(page, statistics)), selection)


def _common(identities: Collection[Identity]) -> Identity | None:
    """One of the identities, where all say the same of what is beside the metrics."""
    said = {each: (each.health, each.headers, each.health_headers, each.landing) for each in identities}
    return next(iter(said)) if len(set(said.values())) == 1 else None
