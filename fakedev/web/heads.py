"""Request heads: where they end, how large they may be, and what two programs could read differently.

twisted.web parses the lines of a head. These checks come before: size, line ends, control characters, continued lines,
the request line, and a target that is a full URL. Lines end with CR LF; a head whose lines all end with a bare LF is
accepted too, so that a person may type a request into netcat.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from functools import lru_cache
from ipaddress import IPv6Address
from typing import Final, NamedTuple

from fakedev.web.http_limits import HttpError, HttpLimits

_END: Final = re.compile(rb"\n\r?\n")
_REQUEST_LINE: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+) ([!-~]+) (HTTP/[0-9]+(?:\.[0-9]+)?)")
#: Control characters but the tab and the line end.
_FORBIDDEN: Final = bytes(range(9)) + bytes(range(11, 32)) + b"\x7f"
#: A target as programs send it to proxies: the host, then path and query.
_FULL_URL: Final = re.compile(rb"(?i:https?)://([^/?#]+)(.*)")
#: A name or IPv4 address, or an IPv6 address in brackets; and a port (RFC 9112, 3.2; RFC 3986, 3.2.2).
_HOST: Final = re.compile(rb"(?:([A-Za-z0-9._~!$&'()*+,;=%-]*)|\[([0-9A-Fa-f:.]{2,45})\])(?::([0-9]{0,5}))?")
_TWO_LINE_ENDS: Final = "some lines of the head end with CR LF, and some with LF alone"


class Head(NamedTuple):
    """A checked head.

    :ivar target: path and query.
    :ivar authority: the host of a target that was a full URL; empty for none.
    :ivar fields: the header lines, and the blank line after them.
    """

    method: bytes
    target: bytes
    version: bytes
    authority: bytes
    fields: bytes


def read_head(data: bytes, limits: HttpLimits, known_fields: Container[bytes] = ()) -> tuple[Head, bytes] | None:
    """The head at the beginning of ``data``, and what follows it; None while it is not complete.

    :param known_fields: fields of heads that were checked before.
    :raises HttpError: 400, 414, 431 or 505, as soon as that is certain.
    """
    line_end = data.find(b"\n")
    line = data[:line_end] if line_end >= 0 else data
    first = line.removesuffix(b"\r")
    if len(first) > limits.line:
        raise HttpError(414, f"the request line is longer than {limits.line} bytes")
    if line_end < 0:
        return None
    method, target, version = _parse_request_line(first)
    end = _END.search(data, line_end)
    length = end.end() if end else len(data) + 1
    if length > limits.head:
        raise HttpError(431, f"the head is longer than {limits.head} bytes")
    if end is None:
        return None
    fields = data[line_end + 1 : length]
    if fields not in known_fields:
        _check_fields(fields, limits)
    if line.endswith(b"\r") != fields.endswith(b"\r\n"):
        raise HttpError(400, _TWO_LINE_ENDS)
    authority = b""
    if not target.startswith(b"/"):
        found = _FULL_URL.fullmatch(target)
        if found is None or split_host(found[1]) is None:
            raise HttpError(400, "the target begins neither with / nor with http://HOST or http://HOST:PORT")
        path = found[2]
        authority, target = found[1], path if path.startswith(b"/") else b"/" + path
    return Head(method, target, version, authority, fields), data[length:]


def check_host(head: Head, hosts: Sequence[bytes]) -> None:
    """Check the Host headers of a head.

    :raises HttpError: 400.
    """
    if len(hosts) > 1:
        raise HttpError(400, "more than one host header")
    if not hosts:
        if head.version == b"HTTP/1.1":
            raise HttpError(400, "a request of HTTP/1.1 needs a Host header")
    elif split_host(hosts[0]) is None:
        raise HttpError(400, "the Host header is not HOST or HOST:PORT")
    elif head.authority and hosts[0].lower() != head.authority.lower():
        raise HttpError(400, "the host of the target differs from the Host header")


@lru_cache(maxsize=256)
def split_host(host: bytes) -> tuple[str, str] | None:
    """Name in lower case and port (empty for none) of a Host header; an IPv6 address without its brackets.

    :returns: None for what is neither HOST nor HOST:PORT, such as ``localhost:80@other`` or ``[::1]other``.
    """
    found = _HOST.fullmatch(host)
    if found is None:
        return None
    name, address, port = (part and part.decode().lower() for part in found.groups())
    if address is not None:
        try:
            IPv6Address(address)
        except ValueError:
            return None
    return address or name or "", port or ""


def _check_fields(fields: bytes, limits: HttpLimits) -> None:
    text = fields.replace(b"\r\n", b"\n")
    if len(fields) - len(text) not in (0, text.count(b"\n")):
        raise HttpError(400, _TWO_LINE_ENDS)
    if len(text.translate(None, _FORBIDDEN)) != len(text):
        raise HttpError(400, "a control character in the head")
    if b"\n " in text or b"\n\t" in text:
        raise HttpError(400, "a header line is not NAME: VALUE")
    if len(text) > limits.line and max(map(len, text.split(b"\n"))) > limits.line:
        raise HttpError(431, f"a header line is longer than {limits.line} bytes")


def _parse_request_line(line: bytes) -> tuple[bytes, bytes, bytes]:
    """Method, target and version of ``line``."""
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        raise HttpError(400, "the request line is not METHOD TARGET VERSION")
    method, target, version = found.groups()
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise HttpError(505, "only HTTP/1.0 and HTTP/1.1 are spoken here")
    return method, target, version
