"""Pages of metrics as resources, with what faults make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.task import deferLater

from fakedev.net.http.body import Body
from fakedev.net.http.negotiation import choose_exposition
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import Answer, GuardedResource
from fakedev.net.http.response import HttpError, Response
from fakedev.net.http.statistics import PageStatistics
from fakedev.net.web.page_cache import CachedPage, Pages, Selection
from fakedev.sim.entities.roster import Roster, RosterNode
from fakedev.sim.entities.selectors import no_node
from fakedev.sim.faults.pages import PageFaults

#: The Content-Type of a page with the fault wrong-type.
_HTML: Final = "text/html; charset=utf-8"


class MetricsPage(GuardedResource):
    """A page of metrics.

    :param find: returns the page. It is called for each request, and not before: to begin a page of thousands of nodes
        takes milliseconds, which a reload would spend in its tick.
    """

    def __init__(self, find: Callable[[], CachedPage], statistics: PageStatistics, allow_head: bool = True) -> None:
        self._find = find
        self.statistics = statistics
        self.allow_head = allow_head

    def page(self, request: GuardedRequest) -> CachedPage:
        return self._find()

    def get(self, request: GuardedRequest) -> Answer:
        page = self.page(request)
        trouble = page.trouble()
        if page.as_openmetrics is not None and choose_exposition(request.header(b"accept")).openmetrics:
            page = page.as_openmetrics
        return page.response() if trouble is None else _troubled(page, trouble, request)


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

    def page(self, request: GuardedRequest) -> CachedPage:
        """The page for the Host header.

        :raises HttpError: 404 for the page of a node of another shard.
        """
        host, roster = request.head.headers.get(b"host"), self._pages.fleet.roster
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


async def _troubled(page: CachedPage, trouble: PageFaults, request: GuardedRequest) -> Response:
    if trouble.is_closed:
        request.hang_up()
        raise HttpError(503, "the node is down")
    if trouble.late_seconds:
        await deferLater(request.site.reactor, trouble.late_seconds)
    if trouble.status:
        raise HttpError(trouble.status, "the exporter has failed")
    found = page.response()
    response = found if isinstance(found, Response) else await found
    body = response.body
    if trouble.share < 1.0:
        body = Body(*_cut(body, int(body.length * trouble.share)))
    content_type = _HTML if trouble.is_html else response.content_type
    return Response(response.status, body, content_type, response.headers)


def _cut(body: Body, length: int) -> list[bytes]:
    pieces: list[bytes] = []
    for piece in body.pieces:
        pieces.append(piece[:length])
        length -= len(pieces[-1])
        if not length:
            break
    return pieces
