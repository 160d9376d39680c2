"""For tests of connections: requests, and sites that answer them."""

from __future__ import annotations

from typing import Any

from twisted.internet.task import Clock

from fakedev.web.encoding import PIECE, Body
from fakedev.web.http_limits import HttpLimits
from fakedev.web.response import Response
from fakedev.web.site import Site
from tests.support.wire.http_wire import Echo, Page, make_site, no_threads

GET = b"GET /page HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n"
POST = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = POST.replace(b"Content-Length: 5", b"Transfer-Encoding: chunked")[:-5] + b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
BIG = Body(*[bytes([number]) * PIECE for number in range(40)])


def site(clock: Clock | None = None, **more: Any) -> Site:
    """A site with a page, a big page, and a resource that can be changed."""
    children = {"page": Page(lambda _: Response(200, b"content")), "big": Page(lambda _: Response(200, BIG))}
    return make_site(clock, **{**children, "echo": Echo(), **more})


def limited(clock: Clock, **limits: Any) -> Site:
    """This site with other limits."""
    return Site(site().resource, clock, limits=HttpLimits(**limits), defer_to_thread=no_threads)
