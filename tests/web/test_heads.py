"""Request heads: what is taken, what is refused, and how large they may be."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakedev.web.heads import Head, check_host, read_head
from fakedev.web.http_limits import DROP_IN_LIMITS, HttpError, HttpLimits
from fakedev.web.site import Site
from tests.support.wire.http_channels import CHUNKED, GET, POST, site
from tests.support.wire.http_wire import Page, Peer, Response, answers

LIMITS = HttpLimits()
_NAMES = st.text("abcdefghijklmnopqrstuvwxyzABCDEF-", min_size=1, max_size=12)
_VALUES = st.text("abc xyz,;=/*0123456789\t", max_size=30)
_POST = b"POST /echo HTTP/1.1\r\nHost: localhost\r\n"


def status(data: bytes, limits: HttpLimits = LIMITS) -> int | None:
    """With which status ``data`` is refused; 200 when it is a head, None when it is not complete."""
    try:
        return None if read_head(data, limits) is None else 200
    except HttpError as error:
        return error.status


@given(st.dictionaries(_NAMES.map(str.lower), _VALUES, max_size=8), st.sampled_from([b"\r\n", b"\n"]))
def test_any_headers_survive(fields: dict[str, str], newline: bytes) -> None:
    for name in ("content-length", "transfer-encoding", "host", "connection", "expect"):
        fields.pop(name, None)
    seen: dict[bytes, list[bytes]] = {}

    def note(request: object) -> Response:
        seen.update(request.requestHeaders.getAllRawHeaders())  # type: ignore[attr-defined]
        return Response()

    lines = [f"{name}: {value}".encode() for name, value in fields.items()]
    head = newline.join([b"GET /seen HTTP/1.1", b"Host: h", *lines, b"", b""])
    assert Peer(site(seen=Page(note))).ask(head).status == 200
    found = {name.lower(): values for name, values in seen.items() if name != b"Host"}
    assert found == {name.encode(): [value.strip().encode()] for name, value in fields.items()}


@pytest.mark.parametrize(
    ("target", "path", "host"),
    [
        (b"http://x.org:9/page?b", b"/page?b", b"x.org:9"),
        (b"HTTP://X.org", b"/", b"x.org"),
        (b"https://x.org?b", b"/?b", b"x.org"),
    ],
)
def test_full_urls(target: bytes, path: bytes, host: bytes) -> None:
    """The host of a full URL must be that of the Host header, and replaces a missing one."""
    found = read_head(b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\n\r\nrest", LIMITS)
    assert found is not None
    head, rest = found
    assert (head.target, head.authority.lower(), head.fields, rest) == (
        path, host, b"Host: " + host + b"\r\n\r\n", b"rest",
    )  # fmt: skip
    check_host(head, [host])
    with pytest.raises(HttpError, match="host of the target"):
        check_host(head, [b"other"])
    peer = Peer(site(host=Page(lambda request: Response(200, request.getHeader(b"host")))))
    assert peer.ask(b"GET http://x.org:9/host HTTP/1.0\r\n\r\n").body == b"x.org:9"


@pytest.mark.parametrize(
    "host",
    [b"localhost:80@evil", b"[::1]evil", b"[::1", b"[evil]", b"[]", b"[1.2.3.4]", b"a b", b"a/b", b"a:b", b"a:1:2",
     b"a?b", b"a#b", b"a\\b", b"user@a", b"h\xc3\xa9", b"a:123456", b"http://a", b"a, b", b"<a>"],
)  # fmt: skip
def test_hosts_that_are_refused(host: bytes) -> None:
    """Two programs could read them differently: in the header, and in the target."""
    assert Peer(site()).ask(b"GET /page HTTP/1.1\r\nHost: " + host + b"\r\n\r\n").status == 400
    if not set(host) & set(b" /?#"):
        assert status(b"GET http://" + host + b"/ HTTP/1.0\r\n\r\n") == 400


@pytest.mark.parametrize(
    "host", [b"", b"a", b"a:", b"a_b.example.", b"1.2.3.4:80", b"[::1]:9400", b"[::ffff:1.2.3.4]", b"%2Frun%2Fx.sock"]
)
def test_hosts(host: bytes) -> None:
    check_host(Head(b"GET", b"/", b"HTTP/1.1", b"", b"\n"), [host])


@pytest.mark.parametrize(
    "data",
    [
        b"GET /page HTTP/1.1\nHost: a\r\n\r\n",
        b"GET /page HTTP/1.1\r\nHost: a\n\n",
        b"GET /page HTTP/1.1\r\nHost: a\r\nA: b\nC: d\r\n\r\n",
        b"GET /page HTTP/1.1\r\nHost: a\r\n\n",
        b"GET /page HTTP/1.1\nHost: a\n\r\n",
    ],
)
def test_two_kinds_of_line_ends(data: bytes) -> None:
    """Another program may see the end of such a head elsewhere; also where its header lines are known."""
    peer = Peer(site())
    for text, code in ((data.replace(b"\r\n", b"\n"), 200), (data.replace(b"\r", b""), 200), (data, 400)):
        assert peer.ask(text).status == code
    assert peer.closed


@pytest.mark.parametrize(
    "lines",
    [
        *(b"GET /page HTTP/1.1\r\nHost: a\r\n" + line for line in (
            b"no colon", b": no name", b"A: 1\r\n folded", b"A: 1\r\n\tfolded", b"A : 1", b"A: 1\rB: 2", b"A: \x00",
            b"A: \x1f", b"HOST: b", b"A\xe9: 1", b"A\t: 1",
        )),
        *(line + b"\r\nHost: a" for line in (
            b"GET /page\x7f HTTP/1.1", b"GET  /page HTTP/1.1", b"G@T /page HTTP/1.1", b"GET metrics HTTP/1.1",
            b"GET * HTTP/1.1", b"OPTIONS * HTTP/1.1", b"GET /page\t HTTP/1.1", b"GET /\xe9 HTTP/1.1",
            b"GET /page HTTP/1.1\r\n folded: 1",
        )),
        *(_POST + line for line in (
            b"Content-Length: 1\r\nContent-Length: 1", b"Content-Length: 1\r\nTransfer-Encoding: chunked",
            b"Content-Length: -1", b"Content-Length: 1_0", b"Content-Length:", b"Content-Length: +1",
            b"Content-Length: 1 1", b"Content-Length: 1, 1", b"Content-Length: 0x1",
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked",
            b"Transfer-Encoding: identity", b"Transfer-Encoding: identity\r\nContent-Length: 1",
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        )),
        b"POST /echo HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked",
        b"POST /echo HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nContent-Length: 1",
        b"GET /page", b"hello", b"GET /page HTTP", b"GET /page HTTP/1.1", b"GET /page HTTP/1.1\r\nAccept: */*",
        b"GET /page HTTP/1.1\r\nHost: a" + b"\r\nA: b" * 500,
    ],
)  # fmt: skip
def test_what_two_programs_could_read_differently(lines: bytes) -> None:
    """It is 400, and nothing after it is answered."""
    served = site()
    peer = Peer(served)
    peer.send(GET + lines + b"\r\n\r\n" + GET)
    assert re.findall(rb"HTTP/1.1 (\d+)", peer.transport.value()) == [b"200", b"400"]
    assert peer.closed and served.codes == {200: 1, 400: 1} and served.dropped == {"refused": 1}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"a" * 5_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"A: bcdefg\r\n" * 2_000 + b"\r\n", 431),
        (b"PRI * HTTP/2.0\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", 400),
        (_POST + b"Content-Length: " + b"9" * 4000 + b"\r\n\r\n", 413),
    ],
    ids=["request line", "header line", "all lines", "HTTP/2", "TLS", "digits"],
)
def test_refused_heads(text: bytes, code: int) -> None:
    """A head has its status, in any segments, and the connection is closed."""
    for segments in ([text], [text[i : i + 1000] for i in range(0, len(text), 1000)]):
        peer = Peer(site())
        (answer,) = answers(peer.send(*segments))
        assert (answer.status, answer.headers["connection"], answer.body[-1:]) == (code, "close", b"\n")
        assert peer.closed


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"GET /" + b"a" * (4096 - len("GET / HTTP/1.0")) + b" HTTP/1.0\r\n\r\n", 200),
        (b"GET /" + b"a" * (4097 - len("GET / HTTP/1.0")) + b" HTTP/1.0\r\n\r\n", 414),
        (b"GET /" + b"a" * 4096, 414),
        (b"GET / HTTP/1.0\r\nA: " + b"a" * 4093 + b"\r\n\r\n", 200),
        (b"GET / HTTP/1.0\r\nA: " + b"a" * 4094 + b"\r\n\r\n", 431),
        (b"GET /", None),
        (b"hello\n", 400),
    ],
)
def test_limits_of_lines(text: bytes, code: int | None) -> None:
    """4 KiB are taken; what is wrong already is refused before the blank line is there."""
    assert status(text) == code


@pytest.mark.parametrize("limits", [LIMITS, DROP_IN_LIMITS])
def test_limit_of_a_head(limits: HttpLimits) -> None:
    """Exactly the limit is taken, also in single bytes; one byte more is 431."""
    room = limits.head - len(b"GET / HTTP/1.0\r\n\r\n")
    lines = b"".join(b"A%03d: %s\r\n" % (number, b"b" * 93) for number in range(room // 101))
    good = b"GET / HTTP/1.0\r\n" + lines + b"B:" + b"c" * (room - len(lines) - 4) + b"\r\n\r\n"
    assert len(good) == limits.head and status(good, limits) == 200
    assert [status(good[:length], limits) for length in range(limits.head - 10, limits.head)] == [None] * 10
    assert status(good.replace(b"\r\n\r\n", b"d\r\n\r\n"), limits) == status(good[:-2] + b"dd", limits) == 431
    guarded = Site(site().resource, site().reactor, limits=limits)
    assert Peer(guarded).ask(good).status == 404


_FIRSTS = st.sampled_from([
    b"GET /page HTTP/1.1", b"GET /page HTTP/1.0", b"GET http://a/page HTTP/1.1", b"PUT /page HTTP/1.1",
    b"GET /page?a=b HTTP/1.1", b"POST /echo HTTP/1.1", b"GET /page HTTP/1.1 ",
])  # fmt: skip
_LINES = st.sampled_from([
    b"Host: a", b"Host: localhost", b"Accept: */*", b"Connection: close", b"Content-Length: 0", b"Expect: 100-continue",
    b"Authorization: Basic YTpi", b"Bad : a", b"A: \x01",
])  # fmt: skip
_NEWLINES = st.sampled_from([b"\r\n", b"\n"])


@given(st.lists(st.tuples(_FIRSTS, st.lists(_LINES, max_size=3), _NEWLINES), max_size=6))
def test_known_header_lines_change_no_answer(heads: list[tuple[bytes, list[bytes], bytes]]) -> None:
    """A site that has seen the same lines before answers each head as a new site does."""
    used = site()
    for first, lines, newline in heads:
        for text in (newline.join([first, *lines, b"", b""]), b"\r\n".join([first, *lines, b"", b""])):
            assert Peer(used).send(text) == Peer(site()).send(text)
    assert not any(b"Authorization" in fields for fields in used.known_headers)


def test_known_headers_are_bounded() -> None:
    served = site()
    for number in range(200):
        Peer(served).send(GET.replace(b"*/*", b"%d" % number), GET.replace(b"*/*", b"a" * 2000))
    assert 0 < len(served.known_headers) <= 64 and max(map(len, served.known_headers)) < 1024


@pytest.mark.parametrize(("text", "body"), [(GET, b"content"), (POST, b"hello"), (CHUNKED, b"hello")])
def test_chopped_at_every_byte(text: bytes, body: bytes) -> None:
    """However a request is cut, in two or in single bytes, its answer is the same."""
    whole = Peer(site()).send(text)
    assert answers(whole)[0].body == body
    for cut in range(1, len(text)):
        assert Peer(site()).send(text[:cut], text[cut:]) == whole
    assert Peer(site()).send(*(text[i : i + 1] for i in range(len(text)))) == whole
