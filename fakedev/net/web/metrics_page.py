"""A page of metrics at an address, with what faults make of it."""

from __future__ import annotations

from typing import Final

from twisted.internet.defer import maybeDeferred
from twisted.internet.task import deferLater

from fakedev.net.http.negotiation import choose_exposition
from fakedev.net.http.request import GuardedRequest
from fakedev.net.http.resource import Answer, GuardedResource
from fakedev.net.http.response import Body, HttpError, Response
from fakedev.net.http.statistics import PageStatistics
from fakedev.net.web.page_cache import CachedPage
from fakedev.sim.faults.pages import PageTrouble

#: What a page says it is that says the wrong thing.
_HTML: Final = "text/html; charset=utf-8"


class MetricsPage(GuardedResource):
    """A page of metrics."""

    def __init__(self, page: CachedPage, statistics: PageStatistics, allow_head: bool = True) -> None:
        super().__init__()
        self._page = page
        self.statistics = statistics
        self.allow_head = allow_head

    def page(self, request: GuardedRequest) -> CachedPage:
        """The page that is asked for."""
        return self._page

    def get(self, request: GuardedRequest) -> Answer:
        """The page at the present tick."""
        page = self.page(request)
        trouble = page.trouble()
        if page.as_openmetrics is not None and choose_exposition(request.header(b"accept")).openmetrics:
            page = page.as_openmetrics
        return page.response() if trouble is None else _troubled(page, trouble, request)


async def _troubled(page: CachedPage, trouble: PageTrouble, request: GuardedRequest) -> Response:
    """The page as a faulty exporter sends it."""
    if trouble.is_closed:
        request.hang_up()
        raise HttpError(503, "the node is down")
    if trouble.late_seconds:
        await deferLater(request.site.reactor, trouble.late_seconds)
    if trouble.status:
        raise HttpError(trouble.status, "the exporter has failed")
    response = await maybeDeferred(page.response)
    body = response.body
    if trouble.share < 1.0:
        body = Body(*_cut(body, int(body.length * trouble.share)))
    content_type = _HTML if trouble.is_html else response.content_type
    return Response(response.status, body, content_type, response.headers)


def _cut(body: Body, length: int) -> list[bytes]:
    """The beginning of a body."""
    pieces: list[bytes] = []
    for piece in body.pieces:
        pieces.append(piece[:length])
        length -= len(pieces[-1])
        if not length:
            break
    return pieces
