"""A request as resources see it: twisted.web's, made cheap.

twisted.web's own Request makes two Headers objects, asks the kernel for addresses and parses cookies and forms for
each request. Here these are made when somebody asks for them, and a Response is sent in one write. Plain twisted.web
resources work with it all the same.
"""

from __future__ import annotations

from functools import cached_property
from io import BytesIO
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote_to_bytes

from twisted.internet.address import UNIXAddress
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import datetimeToString
from twisted.web.http_headers import Headers
from twisted.web.resource import IResource, getChildForRequest
from twisted.web.server import Request

from fakedev.net.http.change_guard import ChangeGuard, Refusal
from fakedev.net.http.head import Head
from fakedev.net.http.negotiation import accepts_gzip
from fakedev.net.http.response import Body, HttpError, Response, error_response

if TYPE_CHECKING:
    from fakedev.net.http.channel import GuardedChannel
    from fakedev.net.http.sending import Outgoing
    from fakedev.net.http.statistics import PageStatistics


class GuardedRequest(Request):
    """One request.

    :ivar head: the parsed head; ``header(name)`` reads a field of it.
    :ivar body: the whole body of a POST.
    """

    channel: Any
    site: Any
    transport: Any
    body: bytes = b""
    log = Logger()
    _parsePOSTFormSubmission = False
    _statistics: PageStatistics | None = None
    _counted = False

    def __init__(self, channel: GuardedChannel, head: Head) -> None:
        # Request.__init__ is not called: what it would make is made below when it is asked for.
        self.channel = channel
        self.site = channel.site
        self.transport = channel.transport
        self.head = head
        self.method = head.method
        self.uri = head.target
        self.clientproto = head.version
        self.path, _, self._query = head.target.partition(b"?")
        self.queued = False
        self.notifications: list[Deferred[None]] = []
        self._began = channel.site.reactor.seconds()

    def header(self, name: bytes) -> bytes | None:
        """The header ``name`` (in lower case); repeated ones joined by commas."""
        return self.head.headers.get(name)

    @property
    def over_unix_socket(self) -> bool:
        """Whether the peer came by a UNIX socket."""
        return isinstance(self.host, UNIXAddress)

    @cached_property
    def args(self) -> dict[bytes, list[bytes]]:
        """The arguments after the ``?``."""
        # By way of Latin-1, in which every byte is a character: parse_qs fails on bytes beyond ASCII.
        found = parse_qs(self._query.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
        return {name.encode("latin-1"): [each.encode("latin-1") for each in values] for name, values in found.items()}

    @cached_property
    def client(self) -> Any:
        """The address of the peer."""
        return self.transport.getPeer()

    @cached_property
    def host(self) -> Any:
        """The address the peer came to."""
        return self.transport.getHost()

    @cached_property
    def content(self) -> BytesIO:
        """The body as a file, for resources of twisted.web."""
        return BytesIO(self.body)

    @cached_property
    def cookies(self) -> list[bytes]:
        """Cookies to set."""
        return []

    @cached_property
    def requestHeaders(self) -> Headers:
        """The headers in twisted.web's form."""
        return Headers({name: [value] for name, value in self.head.headers.items()})

    @cached_property
    def responseHeaders(self) -> Headers:
        """Headers of an answer that is not a Response."""
        date = datetimeToString(self.site.reactor.seconds())
        headers = Headers({b"Server": [self.site.server_name], b"Date": [date]})
        if self.head.close:
            headers.setRawHeaders(b"Connection", [b"close"])
        return headers

    def refusal_of_change(self) -> Refusal | None:
        """Why this request may not change anything, or None."""
        guard: ChangeGuard = self.site.changes
        return guard.refusal(
            self.header(b"host"), self.header(b"origin"), self.header(b"authorization"), self.over_unix_socket
        )

    def early_refusal(self) -> Response | None:
        """Why this request is refused before its body is read, or None."""
        try:
            self._locate()
        except Exception:
            return self._internal_error(Failure())
        refusal = getattr(self._resource, "refusal", None)
        if refusal is not None:
            answer: Response | None = refusal(self)
            return answer
        return None if self.method == b"POST" else self.error(400, f"{self.method.decode()} takes no body")

    def received(self, body: bytes) -> None:
        """All of the request is here: answer it."""
        self.body = body
        try:
            self._locate()
            handle = getattr(self._resource, "handle", None)
            if handle is None:
                self.render(self._resource)
            else:
                handle(self)
        except Exception:
            self._cannot_send(Failure())

    def error(self, status: int, message: str) -> Response:
        """An error in the form of the resource, or as text when there is none of ours."""
        return error_response(HttpError(status, message), getattr(self._resource, "errors_as_json", False))

    def respond(self, response: Response) -> None:
        """Send ``response``; a peer that has left is not answered, and that is no error."""
        if self._disconnected or self.startedWriting:
            return
        try:
            body = response.body
            if not body.length or not accepts_gzip(self.head.headers.get(b"accept-encoding")):
                self._send(response, body, False)
                return
            compressed = body.compressed(self.site.defer_to_thread)
            if isinstance(compressed, Body):
                self._send(response, compressed, True)
            else:
                compressed.addCallback(lambda done: self._send(response, done, True))
                compressed.addErrback(self._cannot_send)
        except Exception:
            self._cannot_send(Failure())

    def respond_endlessly(self, content_type: str) -> Outgoing | None:
        """Begin an answer without an end, which is never by gzip.

        :returns: what sends the rest of it; None when the peer has left.
        """
        channel: GuardedChannel | None = self.channel
        if channel is None or self._disconnected:
            return None
        fields = f"Content-Type: {content_type}\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
        self.code = 200
        self.startedWriting = 1
        status = self.clientproto + b" 200 OK\r\n" + fields.encode()
        return channel.begin_endless(status + self.site.stamp() + b"Connection: close\r\n\r\n")

    def hang_up(self) -> None:
        """Close the connection without an answer, counted as nginx does."""
        channel, self.channel = self.channel, None
        self._disconnected = True
        self._count(444)
        if channel is not None:
            channel.abort()

    def sent(self) -> None:
        """The channel has handed the last byte to the transport."""
        self.finished = 1
        self._count(self.code)
        channel, self.channel = self.channel, None
        if self.notifications:
            self._notify(None)
        if channel is not None:
            channel.requestDone(self)

    def connectionLost(self, reason: Failure) -> None:
        """The peer has left before it had all of its answer."""
        self._disconnected = True
        self.channel = None
        self._count(499)
        self._notify(reason)

    _resource: IResource | None = None

    def _locate(self) -> None:
        """Find the resource that the path names."""
        if self._resource is not None:
            return
        self.prepath: list[bytes] = []
        self.sitepath: list[bytes] = []
        self.postpath = [unquote_to_bytes(part) for part in self.path[1:].split(b"/")]
        resource = self._resource = getChildForRequest(self.site.resource, self)
        statistics = getattr(resource, "statistics", None)
        if statistics is not None:
            self._statistics = statistics
            statistics.begun()

    def _send(self, response: Response, body: Body, gzip: bool) -> None:
        channel = self.channel
        if channel is None or self._disconnected:
            return
        end = b"\r\n" if channel.persistent else b"Connection: close\r\n\r\n"
        head = b"".join((self.clientproto, response.block(body, gzip), self.site.stamp(), end))
        without_body = self.method == b"HEAD" or response.status in (204, 304)
        self.code = response.status
        self.startedWriting = 1
        channel.send(self, head, () if without_body else body.pieces)

    def _cannot_send(self, failure: Failure) -> None:
        """Answer with 500 or, when an answer has begun, end the connection: the peer must see that it is not whole."""
        response = self._internal_error(failure)
        if not self.startedWriting:
            self._send(response, response.body, False)
        elif self.channel is not None:
            self.channel.abort()

    def _internal_error(self, failure: Failure) -> Response:
        self.log.failure("A request could not be answered", failure)
        return self.error(500, "internal error")

    def _cleanup(self) -> None:
        # A plain twisted.web resource has finished its answer.
        if self.producer:
            self.unregisterProducer()
        self.sent()

    def _count(self, code: int) -> None:
        if self._counted:
            return
        self._counted = True
        self.site.codes[code] += 1
        statistics, self._statistics = self._statistics, None
        if statistics is not None:
            statistics.ended(code, max(0.0, self.site.reactor.seconds() - self._began))

    def _notify(self, reason: Failure | None) -> None:
        waiting, self.notifications = self.notifications, []
        for deferred in waiting:
            deferred.callback(reason)
