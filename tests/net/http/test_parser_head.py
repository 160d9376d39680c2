"""Request heads: what is taken, what is refused, and how large they may be."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from fakedev.net.http.limits import DROP_IN_LIMITS, BadRequest, HttpLimits
from fakedev.net.http.parser import Head, Incoming, check_unfinished, end_of_head, parse_head
from fakedev.net.http.sending import Connection, Deadlines
from fakedev.net.system.timing import no_op

LIMITS = HttpLimits()
_NAMES = st.text("abcdefghijklmnopqrstuvwxyzABCDEF-", min_size=1, max_size=12)
_VALUES = st.text("abc xyz,;=/*0123456789\t", max_size=30)


def parse(data: bytes, limits: HttpLimits = LIMITS) -> Head:
    """The head in ``data``, which ends with its blank line."""
    end = end_of_head(data)
    assert end is not None
    return parse_head(data[: end[0]], limits)


def status(data: bytes, limits: HttpLimits = LIMITS) -> int:
    """With which status ``data`` is refused."""
    with pytest.raises(BadRequest) as caught:
        parse(data, limits)
    return caught.value.status


def test_fields() -> None:
    """Method, target, version and headers come out; names in lower case, values without blanks around them."""
    head = parse(b"GET /a?b=c HTTP/1.1\r\nHost: x:1\r\nACCEPT:\t*/*  \r\n\r\n")
    assert (head.method, head.target, head.version) == (b"GET", b"/a?b=c", b"HTTP/1.1")
    assert head.headers == {b"host": b"x:1", b"accept": b"*/*"}
    assert not head.has_body and not head.close


@given(st.dictionaries(_NAMES.map(str.lower), _VALUES, max_size=8))
def test_any_headers_survive(fields: dict[str, str]) -> None:
    """All headers are read, with both kinds of line ends."""
    for name in ("content-length", "transfer-encoding", "host"):
        fields.pop(name, None)
    for newline in ("\r\n", "\n"):
        lines = ["GET / HTTP/1.0", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        head = parse(newline.join(lines).encode())
        assert head.headers == {name.encode(): value.strip().encode() for name, value in fields.items()}


def test_repeated_headers_are_joined() -> None:
    """Two Accept headers mean the same as one with both values."""
    assert parse(b"GET / HTTP/1.0\r\nAccept: a\r\nAccept: b\r\n\r\n").headers[b"accept"] == b"a, b"


@pytest.mark.parametrize(
    "line", [b"Connection: close", b"connection: keep-alive, Close", b"Connection:close"]
)
def test_close(line: bytes) -> None:
    """The connection is closed when one of the tokens says so, and always for HTTP/1.0."""
    assert parse(b"GET / HTTP/1.1\r\nHost: h\r\n" + line + b"\r\n\r\n").close
    assert parse(b"GET / HTTP/1.0\r\n\r\n").close


@pytest.mark.parametrize(
    ("target", "path", "host"),
    [
        (b"http://x.org:9/a?b", b"/a?b", b"x.org:9"),
        (b"HTTP://X.org", b"/", b"x.org"),
        (b"http://x.org?b", b"/?b", b"x.org"),
        (b"/http://y", b"/http://y", b"h"),
    ],
)
def test_full_urls(target: bytes, path: bytes, host: bytes) -> None:
    """A target that is a full URL is taken; its host must be that of the Host header, where there is one."""
    head = parse(b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    assert (head.target, head.headers[b"host"]) == (path, host)
    assert parse(b"GET " + target + b" HTTP/1.0\r\n\r\n").target == path
    if target.lower().startswith(b"http:"):
        assert status(b"GET " + target + b" HTTP/1.1\r\nHost: other\r\n\r\n") == 400


@pytest.mark.parametrize(
    "host",
    [b"localhost:80@evil", b"[::1]evil", b"[::1", b"[evil]", b"[]", b"[1.2.3.4]", b"a b", b"a/b", b"a:b", b"a:1:2",
     b"a?b", b"a#b", b"a\\b", b"user@a", b"h\xc3\xa9", b"a:123456", b"http://a", b"a, b", b"<a>"],
)  # fmt: skip
def test_hosts_that_are_none(host: bytes) -> None:
    """A Host that two programs could read differently is refused, in the header and in the target."""
    assert status(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n") == 400
    if b" " not in host and b"/" not in host and b"?" not in host and b"#" not in host:
        assert status(b"GET http://" + host + b"/ HTTP/1.0\r\n\r\n") == 400


@pytest.mark.parametrize(
    "host", [b"", b"a", b"a:", b"a_b.example.", b"1.2.3.4:80", b"[::1]:9400", b"[::ffff:1.2.3.4]", b"%2Frun%2Fx.sock"]
)
def test_hosts(host: bytes) -> None:
    """Names, addresses and ports; an empty one, and the path of a socket as some clients send it."""
    assert parse(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n").headers[b"host"] == host


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\nA: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n\n",
        b"GET / HTTP/1.1\nHost: a\n\r\n",
    ],
)
def test_both_line_ends(data: bytes) -> None:
    """A head with both line ends is refused: another program may see its end elsewhere."""
    clock = Clock()
    transport = StringTransport()
    for text, code in ((data, 400), (data.replace(b"\r\n", b"\n"), 200), (data.replace(b"\r", b""), 200)):
        incoming = Incoming(cast(Connection, transport), Deadlines(clock, no_op, no_op), LIMITS, text)
        try:
            assert incoming.take_head() is not None and code == 200
        except BadRequest as error:
            assert error.status == code


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n: no name\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA: 1\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA : 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA: 1\rB: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA: \x00\r\n\r\n",
        b"GET /\x7f HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET /\r\n\r\n",
        b"hello\r\n\r\n",
        b"G@T / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET metrics HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET * HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP\r\n\r\n",
        b"GET / HTTP/1.1\r\nHOST: a\r\nHost: b\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1_0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nAccept: */*\r\n\r\n",
        b"GET /\t HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded: 1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA\xe9: 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA\t: 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
    ],
)
def test_bad_heads(data: bytes) -> None:
    """Everything that two programs could read differently is refused."""
    assert status(data) == 400


def test_other_versions_and_codings() -> None:
    """HTTP/2 and unknown transfer codings have separate statuses."""
    assert status(b"PRI * HTTP/2.0\r\n\r\n") == 505
    assert status(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n") == 501


def test_bodies() -> None:
    """Which body follows: none, a length, or chunks; a length of any number of digits is only large."""
    assert not parse(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n").has_body
    assert parse(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 12\r\n\r\n").length == 12
    assert parse(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n").chunked
    assert parse(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"9" * 4000 + b"\r\n\r\n").length >= 10**18


def test_line_limits() -> None:
    """4 KiB are taken and one byte more is not: 414 for the request line, 431 for a header."""
    target = b"/" + b"a" * (4096 - len("GET / HTTP/1.0"))
    assert parse(b"GET " + target + b" HTTP/1.0\r\n\r\n").target == target
    assert status(b"GET " + target + b"a HTTP/1.0\r\n\r\n") == 414
    assert parse(b"GET / HTTP/1.0\r\nA: " + b"a" * 4093 + b"\r\n\r\n").headers[b"a"] == b"a" * 4093
    assert status(b"GET / HTTP/1.0\r\nA: " + b"a" * 4094 + b"\r\n\r\n") == 431


@pytest.mark.parametrize(("limits", "room"), [(LIMITS, 16384), (DROP_IN_LIMITS, 4096 - len("GET / HTTP/1.0\r\n"))])
def test_header_limits(limits: HttpLimits, room: int) -> None:
    """All headers together: exactly the limit is taken, also in single bytes; one byte more is 431."""
    lines = b"".join(b"A%03d: %s\r\n" % (number, b"b" * 93) for number in range(room // 101))
    lines += b"B:" + b"c" * (room - len(lines) - 4) + b"\r\n"
    assert len(lines) == room
    good = b"GET / HTTP/1.0\r\n" + lines + b"\r\n"
    parse(good, limits)
    for length in range(len(good) - 10, len(good)):
        check_unfinished(good[:length], limits)
    assert status(b"GET / HTTP/1.0\r\n" + lines[:-2] + b"d\r\n\r\n", limits) == 431
    with pytest.raises(BadRequest) as caught:
        check_unfinished(b"GET / HTTP/1.0\r\n" + lines[:-2] + b"dddd", limits)
    assert caught.value.status == 431


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"GET /" + b"a" * 4096, 414), (b"hello\n", 400), (b"GET / HTTP/1.0\r\n" + b"a" * 4098, 431)],
)
def test_unfinished_heads(data: bytes, code: int) -> None:
    """What is already wrong is refused before the blank line is there."""
    with pytest.raises(BadRequest) as caught:
        check_unfinished(data, LIMITS)
    assert caught.value.status == code
