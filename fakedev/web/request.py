"""A request as resources see it."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any, Final
from urllib.parse import parse_qsl, unquote_to_bytes

from twisted.internet.address import UNIXAddress
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web import server
from twisted.web.iweb import INonQueuedRequestFactory
from zope.interface import provider

from fakedev.base.steps import Steps
from fakedev.runtime.clock import no_op
from fakedev.web.channel import Channel, too_large
from fakedev.web.encoding import Body, accepts_gzip
from fakedev.web.guard import unauthorized
from fakedev.web.heads import Head
from fakedev.web.http_limits import HttpError
from fakedev.web.response import JSON, PageStatistics, Response, error_response
from fakedev.web.sending import BodySender

#: The statuses of requests without an answer: as nginx counts them.
_LEFT: Final = 499
_HUNG_UP: Final = 444


@provider(INonQueuedRequestFactory)
class Request(server.Request):
    """One request.

    Unlike twisted.web's request it answers with a Response, whose head and body are made once for many requests, keeps
    its body in memory (its size has a limit), and reads no forms.

    :ivar has_body: whether bytes of a body follow the head (a Content-Length of 0 is none).
    :ivar ends_with_input: the end of the peer's input means that it has left, before the answer: what it asks for takes
        long and is for this peer only.
    """

    log = Logger()
    channel: Channel | None  # type: ignore[assignment]  # None when the connection is lost
    site: Any  # our Site, whose module imports this one
    content: Any
    args: dict[bytes, list[bytes]]
    prepath: list[bytes]
    postpath: list[bytes]
    has_body = False
    ends_with_input = False
    _resource: Any = None
    _statistics: PageStatistics | None = None
    _password_check: Deferred[HttpError | None] | None = None
    _endless: BodySender | None = None

    def __init__(self, channel: Channel) -> None:
        super().__init__(channel)
        self.site = channel.site
        self.origin = channel.origin
        self._began = self.site.reactor.seconds()

    def getHeader(self, key: bytes) -> bytes | None:  # type: ignore[override]  # headers are bytes here
        """The header ``key``; repeated ones joined by commas."""
        values = self.requestHeaders.getRawHeaders(key)
        return None if values is None else b", ".join(values)

    @property
    def peer_host(self) -> str:
        """The name of the peer's host; all peers on UNIX sockets are one."""
        return str(getattr(self.client, "host", "UNIX sockets"))

    @property
    def is_unix(self) -> bool:
        return isinstance(self.host, UNIXAddress)

    def answer_in_slices(self, steps: Steps[Response]) -> Response | Deferred[Response]:
        """The answer of some steps, with turns for other connections between them.

        :param steps: begins with the checks of the request. HEAD runs only its first step: then the
            answer has no Content-Length.
        """
        if self.method == b"HEAD":
            try:
                next(steps)
            except StopIteration as done:
                response: Response = done.value
                return response
            return Response(200, content_type=JSON, has_length=False)
        answer: Deferred[Response] = self.site.slices.make(steps, self.notifyFinish(), self.origin)
        return answer

    def respond(self, response: Response) -> None:
        """Send ``response``; a peer that has left gets no answer, and that is no error."""
        if self.channel is None or self.startedWriting:
            return
        try:
            body: Body | Deferred[Body] = response.body
            if response.body.length and accepts_gzip(self.getHeader(b"accept-encoding")):
                body = response.body.compressed(self.site.defer_to_thread)
            if isinstance(body, Body):
                self._send(response, body)
            else:
                body.addCallback(lambda compressed: self._send(response, compressed))
                body.addErrback(self.processingFailed)
        except Exception:
            self.processingFailed(Failure())

    def respond_endlessly(self, content_type: str) -> BodySender | None:
        """Begin an answer without end, never compressed.

        :returns: the sender of the rest; None when the peer has left.
        """
        if self.channel is None or self.startedWriting:
            return None
        self.channel.persistent = False
        fields = f" 200 OK\r\nContent-Type: {content_type}\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n"
        self._endless = self._begin_body(fields.encode() + self.site.common_lines() + b"Connection: close\r\n\r\n")
        return self._endless

    def end_endless(self) -> None:
        if self._endless is not None:
            self._sent()

    def hang_up(self) -> None:
        """Close the connection without an answer."""
        self.startedWriting = 1  # nothing is written any more
        self._count(_HUNG_UP)
        if self.channel is not None:
            self.channel.abort()

    def error(self, status: int, message: str) -> Response:
        """An error in the form that the resource uses; as text when no resource is known."""
        return error_response(HttpError(status, message), getattr(self._resource, "errors_as_json", False))

    # Called by the channel and by the site

    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()

    def handleContentChunk(self, data: bytes) -> None:
        """Take a part of the body.

        :raises HttpError: when it is too long.
        """
        if self.content.tell() + len(data) > self.site.limits.body:
            raise too_large(self.site.limits.body)
        self.content.write(data)

    def early_refusal(self, head: Head) -> Response | None:
        """The refusal of this request before its body is read, or None."""
        self.has_body = True
        self.method, self.uri, self.clientproto = head.method, head.target, head.version
        if self.site.authentication is not None:
            is_good = self.site.authentication.is_good(self.getHeader)
            if not is_good:  # refused, or not known before its password is checked
                return None if is_good is None else error_response(unauthorized(), as_json=False)
        try:
            early: Callable[[Request], Response | None] | None = getattr(self._locate(), "early_refusal", None)
            return None if early is None else early(self)
        except Exception:
            return self._internal_error()

    def process(self) -> None:
        """Answer the request, which is complete."""
        authentication = self.site.authentication
        refusal = None if authentication is None else authentication.refusal(self.getHeader, self.origin)
        if isinstance(refusal, Deferred):
            self._password_check = refusal
            self.ends_with_input = True
            refusal.addCallbacks(self._decided, self._not_decided)
        else:
            self._decided(refusal)

    def processingFailed(self, reason: Failure) -> None:
        """Answer with 500 or, when an answer has begun, abort the connection: the peer must see that it is cut."""
        response = self._internal_error(reason)
        if not self.startedWriting:
            self._send(response, response.body)
        elif self.channel is not None:
            self.channel.abort()

    def connectionLost(self, reason: Failure) -> None:
        """The peer left before it had the whole answer."""
        if self._password_check is not None:
            self._password_check.cancel()
        if self.producer is not None:
            self.producer.stopProducing()
        if self.code != _HUNG_UP:
            self._count(_LEFT)
        super().connectionLost(reason)

    def count(self) -> None:
        """Note the answer in the statistics of its page."""
        if self._statistics is not None:
            self._statistics.ended(self.code, max(0.0, self.site.reactor.seconds() - self._began))

    def _count(self, code: int) -> None:
        self.code = code
        self.site.log(self)

    def _not_decided(self, failure: Failure) -> None:
        if not failure.check(CancelledError):  # its peer has left
            self.processingFailed(failure)

    def _decided(self, refusal: HttpError | None) -> None:
        """Answer the request, which was admitted, or was not."""
        self.ends_with_input = False
        if refusal is not None:
            self.respond(error_response(refusal, as_json=False))
        elif self.channel is not None:  # its peer may have left while its password was checked
            try:
                self.render(self._locate())
            except Exception:
                self.processingFailed(Failure())

    def _locate(self) -> Any:
        """Find the resource of the path; the rest of the path stays in ``postpath``."""
        if self._resource is None:
            self.path, _, query = self.uri.partition(b"?")
            self.args = {}
            # By way of Latin-1, in which every byte is a character: parse_qsl fails on bytes beyond ASCII.
            pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True, encoding="latin-1") if query else ()
            for name, value in pairs:
                self.args.setdefault(name.encode("latin-1"), []).append(value.encode("latin-1"))
            self.prepath, self.postpath = [], [unquote_to_bytes(part) for part in self.path[1:].split(b"/")]
            self._resource = self.site.getResourceFor(self)
            self._statistics = getattr(self._resource, "statistics", None)
            if self._statistics is not None:
                self._statistics.begun()
        return self._resource

    def _send(self, response: Response, body: Body) -> None:
        """Send an answer.

        :param body: the response's body, plain or by gzip.
        """
        channel = self.channel
        if channel is None or self.startedWriting:
            return
        end = b"\r\n" if channel.persistent else b"Connection: close\r\n\r\n"
        head = response.block(body) + self.site.common_lines() + end
        self.code = response.status
        pieces = () if self.method == b"HEAD" or response.status in (204, 304) else body.pieces
        if len(pieces) > 1:
            self._begin_body(head, self._sent).send(pieces)
        else:
            self.startedWriting = 1
            channel.writeSequence((self.clientproto, head, *pieces))
            self.finish()

    def _begin_body(self, head: bytes, sent: Callable[[], None] = no_op) -> BodySender:
        """Send a head; return the sender of its body, or of the parts of a body without end.

        :param sent: called when the transport has all of it.
        """
        assert self.channel is not None
        self.startedWriting = 1
        sender = BodySender(self.channel, self.site.held, sent)
        self.registerProducer(sender, True)
        self.channel.write(self.clientproto + head)
        return sender

    def _sent(self) -> None:
        """The transport has the last byte of an answer in pieces."""
        self.unregisterProducer()
        self.finish()

    def _internal_error(self, failure: Failure | None = None) -> Response:
        self.log.failure("A request could not be answered", failure)
        return self.error(500, "internal error")
