"""The head of an HTTP/1 request, from bytes to fields, and the bounds it is held to.

Pure code, no Twisted. Lines end with CR LF; a bare LF is taken too, so that somebody may type a request into netcat.
Lines that continue an earlier one, control characters, and two lengths for one body are refused: they only serve to
smuggle requests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_KiB: Final = 1024
_END: Final = re.compile(rb"\n\r?\n")
_TOKEN: Final = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FORBIDDEN: Final = bytes(range(9)) + bytes(range(11, 32)) + b"\x7f"
_VERSIONS: Final = (b"HTTP/1.1", b"HTTP/1.0")


@dataclass(frozen=True)
class HttpLimits:
    """What a peer may send and how long it may take; sizes in bytes.

    :param line: the request line, and each header line, without line ends.
    :param headers: all header lines together, with line ends.
    :param head: request line and headers together.
    """

    line: int = 4 * _KiB
    headers: int = 16 * _KiB
    head: int = 20 * _KiB
    body: int = 64 * _KiB
    head_seconds: float = 10.0
    body_seconds: float = 10.0
    stall_seconds: float = 10.0
    idle_seconds: float = 60.0
    max_connections: int = 10_000


#: For ports that stand in for the original programs, which read at most 4 KiB.
DROP_IN_LIMITS: Final = HttpLimits(headers=4 * _KiB, head=4 * _KiB)


class BadRequest(Exception):
    """A request that cannot be served: the status to answer with, and why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


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
    """Where the head in ``data`` ends and what follows it begins, or None while it is not complete.

    :param start: nothing before this position needs to be searched again.
    """
    found = _END.search(data, max(0, start - 2))
    return (found.start(), found.end()) if found else None


def check_unfinished(data: bytes, limits: HttpLimits) -> None:
    """Refuse a head that is already too long or wrong, before its end was seen."""
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
    """Method, target and version of ``line``."""
    parts = line.split(b" ")
    if len(parts) != 3 or not parts[1]:
        raise BadRequest(400, "the request line is not METHOD TARGET VERSION")
    method, target, version = parts
    if not method or method.translate(None, _TOKEN):
        raise BadRequest(400, "the method is not a word")
    if version not in _VERSIONS:
        if version.startswith(b"HTTP/") and version[5:].replace(b".", b"", 1).isdigit():
            raise BadRequest(505, "only HTTP/1.0 and HTTP/1.1 are spoken here")
        raise BadRequest(400, "the request line does not end with an HTTP version")
    return method, target, version


def parse_head(data: bytes, limits: HttpLimits) -> Head:
    """The head in ``data``: all lines without the blank one that ends it."""
    first, _, rest = data.partition(b"\n")
    if len(first.removesuffix(b"\r")) > limits.line:
        raise BadRequest(414, f"the request line is longer than {limits.line} bytes")
    if len(rest) >= limits.headers or len(data) >= limits.head:  # the last line end is not in it
        raise BadRequest(431, f"the headers are longer than {min(limits.headers, limits.head)} bytes")
    text = data.replace(b"\r\n", b"\n")
    if text.endswith(b"\r"):
        text = text[:-1]
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
    head = Head(method, _origin_form(target, method, headers), version, headers)
    _find_body(head)
    return head


def _origin_form(target: bytes, method: bytes, headers: dict[bytes, bytes]) -> bytes:
    """Path and query of ``target``. A full URL (as sent to proxies) gives its host to the Host header."""
    if target.startswith(b"/"):
        return target
    scheme, found, rest = target.partition(b"://")
    if found and scheme.lower() in (b"http", b"https"):
        authority, slash, path = rest.partition(b"/")
        headers[b"host"] = authority
        return slash + path or b"/"
    if (method, target) == (b"OPTIONS", b"*") or method == b"CONNECT":
        return b"/"
    raise BadRequest(400, "the target does not begin with /")


def _find_body(head: Head) -> None:
    """Note which body follows ``head``."""
    headers = head.headers
    if b"transfer-encoding" in headers:
        if b"content-length" in headers:
            raise BadRequest(400, "both Content-Length and Transfer-Encoding")
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
