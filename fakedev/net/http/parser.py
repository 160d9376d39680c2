"""The parser of HTTP/1 requests: from the bytes of a connection to heads and bodies.

Lines end with CR LF; a head whose lines all end with a bare LF is accepted too, so that a person may type a request
into netcat. What two programs could read differently is refused, since it only serves to smuggle requests: continued
header lines, control characters, both line ends in one head, two lengths for one body, chunks in HTTP/1.0, a Host that
is no host or not that of the target.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from fakedev.net.http.access_guard import split_host
from fakedev.net.http.limits import CONTROL_CHARACTERS, BadRequest, HttpLimits
from fakedev.net.http.sending import Connection, Deadlines
from fakedev.net.http.uploads import ChunkedUpload, PlainUpload, upload_for

_END: Final = re.compile(rb"\n\r?\n")
_TOKEN: Final = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FORBIDDEN: Final = CONTROL_CHARACTERS.replace(b"\n", b"")
_AUTHORITY_END: Final = re.compile(rb"[/?#]")
_VERSIONS: Final = (b"HTTP/1.1", b"HTTP/1.0")
#: How many bytes of further requests are read while one is being answered.
_READ_AHEAD: Final = 16 * 1024
#: How many bytes are read and dropped after a refusal.
_LINGER_BYTES: Final = 1024 * 1024


class Head:
    """A parsed request head. Header names are in lower case; repeated ones are joined by commas."""

    __slots__ = ("chunked", "close", "expects_continue", "headers", "length", "method", "target", "version")

    def __init__(self, method: bytes, target: bytes, version: bytes, headers: dict[bytes, bytes]) -> None:
        self.method = method
        self.target = target
        self.version = version
        self.headers = headers
        self.length = 0
        self.chunked = False
        self.expects_continue = False
        self.close = version != b"HTTP/1.1"
        if not self.close and b"connection" in headers:
            self.close = b"close" in [token.strip() for token in headers[b"connection"].lower().split(b",")]

    @property
    def has_body(self) -> bool:
        """Whether bytes of a body follow (a Content-Length of 0 is none)."""
        return self.chunked or self.length > 0


def end_of_head(data: bytes, start: int = 0) -> tuple[int, int] | None:
    """The ends of the head in ``data``, without and with its blank line; None while it is not complete.

    :param start: the bytes before this position were searched already.
    """
    found = _END.search(data, max(0, start - 2))
    return (found.start(), found.end()) if found else None


def check_unfinished(data: bytes, limits: HttpLimits) -> None:
    """Refuse an incomplete head that is already too long or malformed.

    :raises BadRequest: when it is.
    """
    first, newline, rest = data.partition(b"\n")
    if len(first.removesuffix(b"\r")) > limits.line:
        raise BadRequest(414, f"the request line is longer than {limits.line} bytes")
    if newline:
        parse_request_line(first.removesuffix(b"\r"))
    # One byte more may be the beginning of the blank line that ends the head.
    if len(rest) > limits.headers + 1 or len(data) > limits.head + 1:
        raise BadRequest(431, f"the headers are longer than {min(limits.headers, limits.head)} bytes")
    if len(rest) - rest.rfind(b"\n") - 1 > limits.line + 1:
        raise BadRequest(431, f"a header line is longer than {limits.line} bytes")


def parse_request_line(line: bytes) -> tuple[bytes, bytes, bytes]:
    """Method, target and version of ``line``; raises BadRequest."""
    parts = line.split(b" ")
    if len(parts) != 3 or not parts[1]:
        raise BadRequest(400, "the request line is not METHOD TARGET VERSION")
    method, target, version = parts
    if b"\t" in target:
        raise BadRequest(400, "a control character in the target")
    if not method or method.translate(None, _TOKEN):
        raise BadRequest(400, "the method is not a word")
    if version not in _VERSIONS:
        if version.startswith(b"HTTP/") and version[5:].replace(b".", b"", 1).isdigit():
            raise BadRequest(505, "only HTTP/1.0 and HTTP/1.1 are spoken here")
        raise BadRequest(400, "the request line does not end with an HTTP version")
    return method, target, version


def parse_head(data: bytes, limits: HttpLimits) -> Head:
    """Parse the lines of a head; raises BadRequest.

    :param data: without the blank line that ends it; with a CR at its end when that begins with one.
    """
    first, _, rest = data.partition(b"\n")
    if len(first.removesuffix(b"\r")) > limits.line:
        raise BadRequest(414, f"the request line is longer than {limits.line} bytes")
    if len(rest) >= limits.headers or len(data) >= limits.head:  # the last line end is not in it
        raise BadRequest(431, f"the headers are longer than {min(limits.headers, limits.head)} bytes")
    text = data.removesuffix(b"\r").replace(b"\r\n", b"\n")
    if len(text.translate(None, _FORBIDDEN)) != len(text):
        raise BadRequest(400, "a control character in the head")
    lines = text.split(b"\n")
    method, target, version = parse_request_line(lines[0])
    headers: dict[bytes, bytes] = {}
    for line in lines[1:]:
        if len(line) > limits.line:
            raise BadRequest(431, f"a header line is longer than {limits.line} bytes")
        name, colon, value = line.partition(b":")
        if not colon or not name or name.translate(None, _TOKEN):
            raise BadRequest(400, "a header line is not NAME: VALUE")
        name = name.lower()
        value = value.strip(b" \t")
        if name in headers:
            if name in (b"host", b"content-length", b"transfer-encoding"):
                raise BadRequest(400, f"more than one {name.decode()} header")
            value = headers[name] + b", " + value
        headers[name] = value
    _check_host(version, headers)
    head = Head(method, _origin_form(target, method, headers), version, headers)
    _find_body(head)
    return head


def _check_host(version: bytes, headers: dict[bytes, bytes]) -> None:
    host = headers.get(b"host")
    if host is None:
        if version == b"HTTP/1.1":
            raise BadRequest(400, "a request of HTTP/1.1 needs a Host header")
    elif split_host(host) is None:
        raise BadRequest(400, "the Host header is not HOST or HOST:PORT")


def _origin_form(target: bytes, method: bytes, headers: dict[bytes, bytes]) -> bytes:
    """Path and query of ``target``. The host of a full URL (as sent to proxies) must be that of the Host header."""
    if target.startswith(b"/"):
        return target
    scheme, found, rest = target.partition(b"://")
    if found and scheme.lower() in (b"http", b"https"):
        end = _AUTHORITY_END.search(rest)
        authority, path = (rest[: end.start()], rest[end.start() :]) if end else (rest, b"")
        if not authority or split_host(authority) is None:
            raise BadRequest(400, "the target does not begin with http://HOST or http://HOST:PORT")
        if headers.setdefault(b"host", authority).lower() != authority.lower():
            raise BadRequest(400, "the host of the target is not that of the Host header")
        return path if path.startswith(b"/") else b"/" + path
    if (method, target) == (b"OPTIONS", b"*") or method == b"CONNECT":
        return b"/"
    raise BadRequest(400, "the target does not begin with /")


def _find_body(head: Head) -> None:
    headers = head.headers
    if b"transfer-encoding" in headers:
        if b"content-length" in headers:
            raise BadRequest(400, "both Content-Length and Transfer-Encoding")
        if head.version != b"HTTP/1.1":
            raise BadRequest(400, "Transfer-Encoding needs HTTP/1.1")
        if headers[b"transfer-encoding"].lower() != b"chunked":
            raise BadRequest(501, "only the transfer coding chunked is known")
        head.chunked = True
    elif b"content-length" in headers:
        digits = headers[b"content-length"]
        if not digits.isdigit():
            raise BadRequest(400, "Content-Length is not a number")
        # A number too long to convert is far beyond every limit.
        head.length = int(digits) if len(digits) < 19 else 10**18
    if head.has_body and headers.get(b"expect", b"").lower() == b"100-continue":
        head.expects_continue = head.version == b"HTTP/1.1"


@dataclass(eq=False, slots=True)
class Incoming:
    """The reading side of a connection: heads and bodies are taken out when they are complete.

    :param transport: is paused while enough is read.
    :ivar pending: bytes that were read and not yet used.
    :ivar has_ended: the peer sends nothing more.
    :ivar is_paused: the transport reads nothing.
    """

    _transport: Connection
    _deadlines: Deadlines
    _limits: HttpLimits
    pending: bytes = b""
    has_ended: bool = False
    is_paused: bool = False
    _searched: int = 0  # bytes without the end of a head
    _upload: PlainUpload | ChunkedUpload | None = None
    _discarded: int = 0

    @property
    def is_under_way(self) -> bool:
        """Whether a part of a head or body was read, and not all of it."""
        return self._searched > 0 or self._upload is not None

    def take_head(self) -> Head | None:
        """Take the next head; None when it is not complete.

        :raises BadRequest: when it is malformed or too long.
        """
        data = self.pending
        if data[0] in b"\r\n":  # some clients end a body with an empty line
            data = self.pending = data.lstrip(b"\r\n")
        end = end_of_head(data, self._searched)
        if end is None:
            check_unfinished(data, self._limits)
            if data and not self._searched:
                self._deadlines.input_in(self._limits.head_seconds)
            self._searched = len(data)
            return None
        self._searched = 0
        self._deadlines.input_arrived()
        self.pending = data[end[1] :]
        if data.count(b"\r\n", 0, end[1]) not in (0, data.count(b"\n", 0, end[1])):
            raise BadRequest(400, "some lines of the head end with CR LF, and some with LF alone")
        return parse_head(data[: end[0]], self._limits)

    def begin_body(self, head: Head) -> None:
        """Expect the body of ``head``.

        :raises BadRequest: when it is too long.
        """
        self._upload = upload_for(None if head.chunked else head.length, self._limits.body)
        self._deadlines.input_in(self._limits.body_seconds)

    def take_body(self) -> bytes | None:
        """Take the expected body; None when it is not complete.

        :raises BadRequest: when it is malformed or too long.
        """
        assert self._upload is not None
        data, self.pending = self.pending, b""
        rest = self._upload.feed(data)
        if rest is None:
            return None
        self.pending = rest
        self._deadlines.input_arrived()
        upload, self._upload = self._upload, None
        return upload.value()

    def throttle(self, is_busy: bool) -> None:
        """Let the transport read only a bounded number of bytes ahead.

        :param is_busy: nothing that is read can be used now.
        """
        is_paused = is_busy and len(self.pending) > _READ_AHEAD
        if is_paused == self.is_paused or self.has_ended:
            return
        self.is_paused = is_paused
        if is_paused:
            self._transport.pauseProducing()
        else:
            self._transport.resumeProducing()

    def forget(self) -> None:
        """Drop what was read."""
        self.pending = b""
        self._upload = None

    def discard(self, data: bytes) -> bool:
        """Drop ``data``; return whether too many bytes were dropped by now."""
        self._discarded += len(data)
        return self._discarded > _LINGER_BYTES
