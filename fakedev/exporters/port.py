"""Pages of metrics as web resources, with the effects of faults; and the tree of a vendor's exporter.

The tree has the exporter's metrics, and its other pages in its words. Agents that have only a host and a port find
the exporter of a node by the node's address, see NodeAddresses, or by the Host header, see HostMetricsPage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from html import escape
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from twisted.internet import address
from twisted.internet.task import deferLater
from twisted.web.resource import IResource

from fakedev.exporters.cache import CachedPage, Pages, Selection
from fakedev.exporters.identity import Identity
from fakedev.exporters.vllm_page import vllm_page
from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.entities.selectors import no_node
from fakedev.fleet.faults.page_faults import PageFaults
from fakedev.fleet.fleet import Fleet
from fakedev.web.encoding import Body, choose_exposition
from fakedev.web.http_limits import HttpError
from fakedev.web.paths import HEALTH, METRICS, START
from fakedev.web.probes import Health, HealthPage
from fakedev.web.request import Request
from fakedev.web.resource import Answer, Resource, make_tree
from fakedev.web.response import PLAIN, PageStatistics, Response, ScrapeStatistics

#: The Content-Type of a page with the fault wrong-type.
_HTML: Final = "text/html; charset=utf-8"


class MetricsPage(Resource):
    """A page of metrics.

    :param find: returns the page. It is called for each request, and not before: to begin a page of thousands of nodes
        takes milliseconds, which a reload would spend in its tick.
    """

    def __init__(self, find: Callable[[], CachedPage], statistics: PageStatistics, allow_head: bool = True) -> None:
        self._find = find
        self.statistics = statistics
        self.allow_head = allow_head

    def page(self, request: Request) -> CachedPage:
        return self._find()

    def get(self, request: Request) -> Answer:
        page = self.page(request)
        faults = page.faults()
        if page.as_openmetrics is not None and choose_exposition(request.getHeader(b"accept")).openmetrics:
            page = page.as_openmetrics
        return page.response() if faults is None else _with_faults(page, faults, request)


class VllmPage(Resource):
    """The page of the inference engines of a fleet's cluster."""

    def __init__(self, fleet: Fleet, statistics: PageStatistics) -> None:
        self._fleet = fleet
        self.statistics = statistics

    def get(self, request: Request) -> Answer:
        form = choose_exposition(request.getHeader(b"accept"))
        return Response(200, vllm_page(self._fleet, openmetrics=form.openmetrics), form.content_type)


class HostMetricsPage(MetricsPage):
    """The page of the node that the Host header names, by its whole name or up to the first dot; else of all nodes.

    :param selection: the nodes that are shown, and how.
    """

    def __init__(self, pages: Pages, statistics: PageStatistics, selection: Selection) -> None:
        super().__init__(pages.finder(selection), statistics)
        self._pages = pages
        self._selection = selection
        #: The node of the last Host header: most scrapers always send the same.
        self._last: tuple[bytes | None, Roster | None, RosterNode | None] = (None, None, None)

    def page(self, request: Request) -> CachedPage:
        """The page for the Host header.

        :raises HttpError: 404 for the page of a node of another shard.
        """
        host, roster = request.getHeader(b"host"), self._pages.fleet.roster
        last_host, last_roster, node = self._last
        if host != last_host or roster is not last_roster:
            node = self._find_node(host, roster)
            self._last = host, roster, node
        return self._find() if node is None else self._pages.node_page(node, self._selection)

    def _find_node(self, host: bytes | None, roster: Roster) -> RosterNode | None:
        named = (roster.whole or roster).host((host or b"").decode("latin-1").partition(":")[0])
        if named is None or not self._selection.has(named):
            return None
        node = roster.node(named.name)
        if node is None:
            raise HttpError(404, no_node(named.name, roster, "").text)
        return node


async def _with_faults(page: CachedPage, faults: PageFaults, request: Request) -> Response:
    if faults.is_closed:
        request.hang_up()
        raise HttpError(503, "the node is down")
    if faults.late_seconds:
        await deferLater(request.site.reactor, faults.late_seconds)
    if faults.status:
        raise HttpError(faults.status, "the exporter has failed")
    found = page.response()
    response = found if isinstance(found, Response) else await found
    body = response.body
    if faults.share < 1.0:
        body = Body(*_cut(body, int(body.length * faults.share)))
    content_type = _HTML if faults.is_html else response.content_type
    return Response(response.status, body, content_type, response.headers)


def _cut(body: Body, length: int) -> list[bytes]:
    pieces: list[bytes] = []
    for piece in body.pieces:
        pieces.append(piece[:length])
        length -= len(pieces[-1])
        if not length:
            break
    return pieces


def make_vendor_root(
    pages: Pages,
    scrapes: ScrapeStatistics,
    health: Health,
    selection: Selection,
    *,
    per_node: IPv4Network | None = None,
) -> Resource:
    """The tree of a vendor's exporter: /metrics; /health and / in its words, where all identities have the same.

    :param per_node: the network in which each node has an address with an exporter.
    """
    identity = _common([selection.identity] if selection.identity else pages.identities.values())
    statistics = scrapes.page(METRICS.template)

    def exporter(metrics: MetricsPage) -> Resource:
        tree: dict[str, Resource] = {METRICS.fixed: metrics, HEALTH.fixed: HealthPage(health)}
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

    def post(self, request: Request, body: bytes) -> Answer:
        return self.get(request)


class PostedHostMetricsPage(PostedMetricsPage, HostMetricsPage):
    """The page of the node that the Host header names, for GET and POST."""


class NodeAddresses(Resource):
    """The exporters of nodes that each have an address: the first of a network is the first node's, and so on.

    :param exporter: makes the tree of a node's exporter from what returns its page.
    """

    def __init__(
        self,
        pages: Pages,
        network: IPv4Network,
        exporter: Callable[[Callable[[], CachedPage]], Resource],
        selection: Selection,
    ) -> None:
        self._pages = pages
        self._first = int(network.network_address) + 1
        self._exporter = exporter
        roster = pages.fleet.roster
        # A node has the same address in every shard.
        self._nodes = [roster.node(node.name) for node in (roster.whole or roster).nodes if selection.has(node)]
        self._selection = selection

    def getChild(self, name: bytes, request: Request) -> IResource:
        """The child of that name of the node's exporter at the address of the connection; none at other addresses."""
        if not isinstance(request.host, address.IPv4Address):
            return super().getChild(name, request)
        position = int(IPv4Address(request.host.host)) - self._first
        node = self._nodes[position] if 0 <= position < len(self._nodes) else None
        if node is None:
            return super().getChild(name, request)
        exporter = self._exporter(partial(self._pages.node_page, node, self._selection))
        found: IResource = exporter.getChildWithDefault(name, request)
        return found


class VendorHealth(Resource):
    """/health as an exporter answers it: its word, or 503 with the reason."""

    def __init__(self, identity: Identity, health: Health) -> None:
        self._word = identity.health
        self._headers = (*identity.headers, *identity.health_headers)
        self._health = health

    def get(self, request: Request) -> Response:
        """The word while the simulation runs."""
        reason = self._health()
        status, text = (200, self._word) if reason is None else (503, reason)
        return Response(status, text.encode(), PLAIN, self._headers)


class Landing(Resource):
    """/ of an exporter: its name, and links to its metrics and its health."""

    def __init__(self, identity: Identity) -> None:
        title = escape(identity.landing)
        html = (
            f"<html>\n<head><title>{title}</title></head>\n<body>\n<h1>{title}</h1>\n"
            f'<p><a href="./metrics">Metrics</a></p>\n<p><a href="./health">Health</a></p>\n</body>\n</html>\n'
        )
        self._response = Response(200, html.encode(), _HTML, identity.headers)

    def get(self, request: Request) -> Response:
        return self._response
