"""A request as resources see it.

twisted.web's Request makes two Headers objects, asks the kernel for addresses and parses cookies and forms for each
request. GuardedRequest reads such things when a resource asks for them, and sends a Response in one write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol
from urllib.parse import parse_qs, unquote_to_bytes

from twisted.internet.address import UNIXAddress
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from fakedev.net.http.access_guard import AccessGuard
from fakedev.net.http.admission import Admission
from fakedev.net.http.body import Body, DeferToThread
from fakedev.net.http.limits import BadRequest
from fakedev.net.http.negotiation import accepts_gzip
from fakedev.net.http.parser import Head
from fakedev.net.http.response import JSON, CommonHeaders, HttpError, Response, error_response
from fakedev.net.http.sending import Connection, Outgoing
from fakedev.net.http.slices import SlicedAnswers, Steps
from fakedev.net.http.statistics import PageStatistics


class RequestResource(Protocol):
    """What a request uses of a resource; see GuardedResource."""

    errors_as_json: bool
    is_guarded: bool
    statistics: PageStatistics | None

    def child(self, name: bytes, request: GuardedRequest, /) -> RequestResource | None: ...
    def refusal(self, request: GuardedRequest, /) -> Response | None: ...
    def handle(self, request: GuardedRequest, /) -> None: ...


class RequestSite(Protocol):
    """What a request uses of its site; see GuardedSite."""

    reactor: IReactorTime
    guard: AccessGuard
    admission: Admission | None
    codes: Counter[int]
    common_headers: CommonHeaders
    defer_to_thread: DeferToThread
    slices: SlicedAnswers

    @property
    def resource(self) -> RequestResource: ...


class RequestChannel(Protocol):
    """What a request uses of its connection; see GuardedChannel."""

    persistent: bool

    def send(self, head: bytes, pieces: Sequence[bytes]) -> None: ...
    def begin_endless(self, head: bytes) -> Outgoing: ...
    def request_done(self) -> None: ...
    def abort(self) -> None: ...


class GuardedRequest:
    """One request.

    :ivar head: the parsed head; ``header(name)`` reads a field of it.
    :ivar path: the path as it was sent, without the query.
    :ivar postpath: the parts of the path below the resource.
    :ivar body: the whole body of a POST.
    :ivar ends_with_input: the end of the peer's input means that it has left, before the answer: what it asks for takes
        long and is for this peer only.
    """

    body: bytes = b""
    ends_with_input = False
    log = Logger()
    _code = 0
    _counted = False
    _has_begun = False  # to be answered
    _is_gone = False  # the connection
    _resource: RequestResource | None = None
    _statistics: PageStatistics | None = None

    def __init__(self, channel: RequestChannel, site: RequestSite, connection: Connection, head: Head) -> None:
        self.site = site
        self.head = head
        self.method = head.method
        self.path, _, self._query = head.target.partition(b"?")
        self.postpath: list[bytes] = []
        self._channel: RequestChannel | None = channel
        self._connection = connection
        self._waiting: list[Deferred[None]] = []
        self._began = site.reactor.seconds()

    def header(self, name: bytes) -> bytes | None:
        """The header ``name`` (in lower case); repeated ones joined by commas."""
        return self.head.headers.get(name)

    @cached_property
    def args(self) -> dict[bytes, list[bytes]]:
        """The arguments after the ``?``."""
        # By way of Latin-1, in which every byte is a character: parse_qs fails on bytes beyond ASCII.
        found = parse_qs(self._query.decode("latin-1"), keep_blank_values=True, encoding="latin-1")
        return {name.encode("latin-1"): [each.encode("latin-1") for each in values] for name, values in found.items()}

    @property
    def host(self) -> object:
        """The address that the peer connected to."""
        return self._connection.getHost()

    @property
    def peer_host(self) -> str:
        """The name of the peer's host; all peers on UNIX sockets are one."""
        return str(getattr(self._connection.getPeer(), "host", "UNIX sockets"))

    def refusal_of_change(self) -> BadRequest | None:
        """The reason why this request may not change anything, or None."""
        return self.site.guard.refusal_of_change(self.head.headers, isinstance(self.host, UNIXAddress))

    def notify_finish(self) -> Deferred[None]:
        """A Deferred that fires when the whole answer was sent, and fails when the peer left before."""
        self._waiting.append(Deferred())
        return self._waiting[-1]

    def answer_in_slices(self, steps: Steps) -> Response | Deferred[Response]:
        """The answer of some steps, with turns for other connections between them.

        :param steps: begins with the checks of the request. HEAD needs no more of it than its first step: then the
            answer has no Content-Length.
        """
        if self.method == b"HEAD":
            try:
                next(steps)
            except StopIteration as done:
                response: Response = done.value
                return response
            return Response(200, content_type=JSON, has_length=False)
        return self.site.slices.make(steps, self.notify_finish())

    def respond(self, response: Response) -> None:
        """Send ``response``; a peer that has left gets no answer, and that is no error."""
        if self._is_gone or self._has_begun:
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
            self._cannot_send()

    def respond_endlessly(self, content_type: str) -> Outgoing | None:
        """Begin an answer without end, never compressed.

        :returns: the sender of the rest; None when the peer has left.
        """
        channel = self._channel
        if channel is None or self._is_gone:
            return None
        fields = f" 200 OK\r\nContent-Type: {content_type}\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
        self._code = 200
        self._has_begun = True
        lines = self.site.common_headers.lines()
        return channel.begin_endless(self.head.version + fields.encode() + lines + b"Connection: close\r\n\r\n")

    def hang_up(self) -> None:
        """Close the connection without an answer; counted as 444, as nginx does."""
        channel, self._channel = self._channel, None
        self._is_gone = True
        self._count(444)
        if channel is not None:
            channel.abort()

    # Called by the channel

    def early_refusal(self) -> Response | None:
        """The refusal of this request before its body is read, or None."""
        admission = self.site.admission
        if admission is not None:
            refusal = admission.early_refusal(self.head.headers)
            if refusal is not None:
                return error_response(refusal, as_json=False)
            if not admission.is_decided(self.head.headers):
                return None
        try:
            resource = self._locate()
        except Exception:
            return self._internal_error()
        return self._refusal_of_host(resource) or resource.refusal(self)

    def received(self, body: bytes) -> None:
        """Answer the request, which is complete."""
        self.body = body
        admission = self.site.admission
        refusal = None if admission is None else admission.refusal(self.head.headers)
        if isinstance(refusal, Deferred):
            refusal.addCallbacks(self._decided, self._cannot_send)
        else:
            self._decided(refusal)

    def _decided(self, refusal: HttpError | None) -> None:
        """Answer the request, which was admitted, or was not."""
        if refusal is not None:
            self.respond(error_response(refusal, as_json=False))
            return
        if self._is_gone:
            return  # its peer has left while its password was checked
        try:
            resource = self._locate()
            foreign = self._refusal_of_host(resource)
            if foreign is None:
                resource.handle(self)
            else:
                self.respond(foreign)
        except Exception:
            self._cannot_send()

    def error(self, status: int, message: str) -> Response:
        """An error in the form that the resource uses; as text when no resource is known."""
        return error_response(HttpError(status, message), getattr(self._resource, "errors_as_json", False))

    def sent(self) -> None:
        """The transport has the last byte of the answer."""
        self._count(self._code)
        channel, self._channel = self._channel, None
        if self._waiting:
            self._notify(None)
        if channel is not None:
            channel.request_done()

    def connection_lost(self, reason: Failure) -> None:
        """The peer left before it had the whole answer."""
        self._is_gone = True
        self._channel = None
        self._count(499)
        self._notify(reason)

    def _locate(self) -> RequestResource:
        """Find the resource of the path; the rest of the path stays in ``postpath``."""
        if self._resource is not None:
            return self._resource
        resource = self.site.resource
        self.postpath = postpath = [unquote_to_bytes(part) for part in self.path[1:].split(b"/")]
        while postpath:
            part = postpath.pop(0)
            child = resource.child(part, self)
            if child is None:
                postpath.insert(0, part)
                break
            resource = child
        self._resource = resource
        statistics = resource.statistics
        if statistics is not None:
            self._statistics = statistics
            statistics.begun()
        return resource

    def _refusal_of_host(self, resource: RequestResource) -> Response | None:
        """The refusal of a request to a guarded resource for its Host, before anything is said about the path."""
        if not resource.is_guarded:
            return None
        refusal = self.site.guard.refusal_of_host(self.head.headers, isinstance(self.host, UNIXAddress))
        return None if refusal is None else self.error(refusal.status, refusal.reason)

    def _send(self, response: Response, body: Body, gzip: bool) -> None:
        channel = self._channel
        if channel is None or self._is_gone:
            return
        end = b"\r\n" if channel.persistent else b"Connection: close\r\n\r\n"
        block = response.block(body, gzip)
        head = b"".join((self.head.version, block, self.site.common_headers.lines(), end))
        without_body = self.method == b"HEAD" or response.status in (204, 304)
        self._code = response.status
        self._has_begun = True
        channel.send(head, () if without_body else body.pieces)

    def _cannot_send(self, failure: Failure | None = None) -> None:
        """Answer with 500 or, when an answer has begun, close the connection: the peer must see that it is not whole.

        :param failure: the reason; None: the exception being handled.
        """
        response = self._internal_error(failure)
        if not self._has_begun:
            self._send(response, response.body, False)
        elif self._channel is not None:
            self._channel.abort()

    def _internal_error(self, failure: Failure | None = None) -> Response:
        self.log.failure("A request could not be answered", failure)
        return self.error(500, "internal error")

    def _count(self, code: int) -> None:
        if self._counted:
            return
        self._counted = True
        self.site.codes[code] += 1
        statistics, self._statistics = self._statistics, None
        if statistics is not None:
            statistics.ended(code, max(0.0, self.site.reactor.seconds() - self._began))

    def _notify(self, reason: Failure | None) -> None:
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            if reason is None:
                deferred.callback(None)
            else:
                deferred.errback(reason)
