"""The tree of a vendor's exporter: its metrics, and its other pages in its words.

Agents that know only a host and a port find the exporter of a node by the node's address, see NodeAddresses, or by the
Host header, see HostMetricsPage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from html import escape
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from twisted.internet import address

from fakedev.exposition.identity import Identity
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import Answer, GuardedResource, make_tree
from fakedev.net.http.response import PLAIN, Response
from fakedev.net.http.statistics import ScrapeStatistics
from fakedev.net.web.metrics_page import HostMetricsPage, MetricsPage
from fakedev.net.web.page_cache import CachedPage, Pages, Selection
from fakedev.net.web.probes import Health, HealthPage
from fakedev.spec.web_paths import HEALTH, METRICS, START

_HTML: Final = "text/html; charset=utf-8"


def make_vendor_root(
    pages: Pages,
    scrapes: ScrapeStatistics,
    health: Health,
    selection: Selection,
    *,
    per_node: IPv4Network | None = None,
) -> GuardedResource:
    """The tree of a vendor's exporter: /metrics; /health and / in its words, where all identities have the same.

    :param per_node: the network in which each node has an address with an exporter.
    """
    identity = _common([selection.identity] if selection.identity else pages.identities.values())
    statistics = scrapes.page(METRICS.template)

    def exporter(metrics: MetricsPage) -> GuardedResource:
        tree: dict[str, GuardedResource] = {METRICS.fixed: metrics, HEALTH.fixed: HealthPage(health)}
        if identity is not None and identity.health:
            tree[HEALTH.fixed] = VendorHealth(identity, health)
        if identity is not None and identity.landing:
            tree[START.fixed] = Landing(identity)
        return make_tree(tree)

    answers_post = identity is not None and identity.answers_post
    if per_node is None:
        kind = PostedHostMetricsPage if answers_post else HostMetricsPage
        return exporter(kind(pages, statistics, selection))
    of_node = PostedMetricsPage if answers_post else MetricsPage
    return NodeAddresses(pages, per_node, lambda find: exporter(of_node(find, statistics)), selection)


def _common(identities: Collection[Identity]) -> Identity | None:
    """One of the identities, where all have the same pages beside their metrics."""
    texts = {
        each: (each.health, each.headers, each.health_headers, each.landing, each.answers_post) for each in identities
    }
    return next(iter(texts)) if len(set(texts.values())) == 1 else None


class PostedMetricsPage(MetricsPage):
    """A page of metrics that POST reads too, with any body."""

    post_reads = True

    def post(self, request: GuardedRequest, body: bytes) -> Answer:
        """The same as GET."""
        return self.get(request)


class PostedHostMetricsPage(PostedMetricsPage, HostMetricsPage):
    """The page of the node that the Host header names, for GET and POST."""


class NodeAddresses(GuardedResource):
    """The exporters of nodes that each have an address: the first of a network is the first node's, and so on.

    :param exporter: makes the tree of a node's exporter from what returns its page.
    """

    def __init__(
        self,
        pages: Pages,
        network: IPv4Network,
        exporter: Callable[[Callable[[], CachedPage]], GuardedResource],
        selection: Selection,
    ) -> None:
        self._pages = pages
        self._first = int(network.network_address) + 1
        self._exporter = exporter
        roster = pages.fleet.roster
        # A node has the same address in every shard.
        self._nodes = [roster.node(node.name) for node in (roster.whole or roster).nodes if selection.has(node)]
        self._selection = selection

    def find_child(self, name: bytes, request: GuardedRequest) -> GuardedResource | None:
        """The child of that name of the node's exporter at the address of the connection; none at other addresses."""
        if not isinstance(request.host, address.IPv4Address):
            return None
        position = int(IPv4Address(request.host.host)) - self._first
        node = self._nodes[position] if 0 <= position < len(self._nodes) else None
        if node is None:
            return None
        return self._exporter(partial(self._pages.node_page, node, self._selection)).child(name, request)


class VendorHealth(GuardedResource):
    """/health as an exporter answers it: its word, or 503 with the reason."""

    def __init__(self, identity: Identity, health: Health) -> None:
        self._word = identity.health
        self._headers = (*identity.headers, *identity.health_headers)
        self._health = health

    def get(self, request: GuardedRequest) -> Response:
        """The word while the simulation runs."""
        reason = self._health()
        status, text = (200, self._word) if reason is None else (503, reason)
        return Response(status, text.encode(), PLAIN, self._headers)


class Landing(GuardedResource):
    """/ of an exporter: its name, and links to its metrics and its health."""

    def __init__(self, identity: Identity) -> None:
        title = escape(identity.landing)
        html = (
            f"<html>\n<head><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n"
            f'<p><a href="./metrics">Metrics</a></p>\n<p><a href="./health">Health</a></p>\n</body>\n</html>\n'
        )
        self._response = Response(200, html.encode(), _HTML, identity.headers)

    def get(self, request: GuardedRequest) -> Response:
        return self._response
