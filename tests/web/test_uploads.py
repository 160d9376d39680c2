"""Request bodies, plain and in chunks: what is read, and what is refused before that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.wire.http_channels import GET, site
from tests.support.wire.http_wire import Echo, Peer, Turns, answers

HEAD = b"POST /echo HTTP/1.1\r\nHost: localhost\r\n"
IN_CHUNKS = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


def encode(chunks: list[bytes], trailer: bytes = b"") -> bytes:
    """A request with ``chunks``."""
    return IN_CHUNKS + b"".join(b"%x;x=y\r\n%b\r\n" % (len(c), c) for c in chunks if c) + b"0\r\n" + trailer + b"\r\n"


def bodies(peer: Peer) -> list[bytes]:
    return [answer.body for answer in answers(peer.transport.value())]


@given(st.binary(max_size=50), st.data())
def test_plain(body: bytes, data: st.DataObject) -> None:
    """A body of known length comes out however it was cut, and what follows is answered next."""
    wire = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body + GET
    cut = data.draw(st.integers(0, len(wire)))
    peer = Peer(site())
    peer.send(wire[:cut], wire[cut:])
    assert bodies(peer) == [body, b"content"]


@given(st.lists(st.binary(max_size=20), max_size=4), st.sampled_from([b"", b"A: b\r\n", b"A: b\r\nC: d\r\n"]))
def test_chunks_at_every_byte(chunks: list[bytes], trailer: bytes) -> None:
    """A body in chunks, byte by byte, with a request after it; trailers are dropped."""
    wire = encode(chunks, trailer) + GET
    peer = Peer(site())
    peer.send(*(wire[i : i + 1] for i in range(len(wire))))
    assert bodies(peer) == [b"".join(chunks), b"content"]


@pytest.mark.parametrize(
    ("wire", "status"),
    [
        *((size + b"\r\na\r\n", 400) for size in (b"x", b"-1", b"", b" 1", b"1 ", b"+1", b"1_0", b"1\na")),
        *((size + b"\r\na\r\n", 400) for size in (b"1;x\ny", b"1;x\ry", b"1;x\r", b"0;\x00", b"1" * 1300)),
        (b"3\r\nabcd\r\n", 400),
        (b"10001\r\n" + b"a" * 0x10001, 413),
        (b"ffffffffffffffffffff\r\n" + b"a" * 0x10001, 413),
        (b"8000\r\n" + b"a" * 0x8000 + b"\r\n8001\r\n" + b"a" * 0x8001, 413),
        (b"0\r\n" + b"a" * 70_000, 400),
        (b"0\r\n" + b"a: b\r\n" * 20_000, 400),
    ],
)
def test_bad_chunks(wire: bytes, status: int) -> None:
    """Sizes that are no numbers, chunks that do not end where they should, and too much are refused."""
    served = site()
    peer = Peer(served)
    answer = peer.send(IN_CHUNKS + wire)
    assert answer.startswith(b"HTTP/1.1 %d " % status) and answer.count(b"HTTP/1.1") == 1
    assert peer.closed and served.codes == {status: 1} and served.dropped == {"refused": 1}


def test_small_chunks() -> None:
    """A body in chunks of one byte is parsed in several turns, so that it delays nobody."""
    clock = Turns()
    seconds = clock.seconds
    clock.seconds = lambda: (clock.work(0.001), seconds())[1]  # type: ignore[method-assign]
    peer = Peer(site(clock))
    peer.channel.dataReceived(encode([b"x"] * 4000))
    while clock.calls and not peer.transport.unsent:
        clock.turn()
    peer.read()
    assert bodies(peer) == [b"x" * 4000]


@pytest.mark.parametrize("coded", [False, True])
def test_largest_body(coded: bool) -> None:
    """64 KiB are taken."""
    body = b"a" * 65536
    wire = encode([body[:0x8000], body[0x8000:]]) if coded else HEAD + b"Content-Length: 65536\r\n\r\n" + body
    assert Peer(site()).ask(wire).body == body


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"DELETE"])
@pytest.mark.parametrize("field", [b"Content-Length: 1000000000", b"Transfer-Encoding: chunked"])
def test_body_where_none_belongs(method: bytes, field: bytes) -> None:
    """It is refused after the headers, and does nothing; a length of 0 is no body."""
    echo, is_head = Echo(), method == b"HEAD"
    peer = Peer(site(echo=echo))
    text = method + b" /echo HTTP/1.1\r\nHost: localhost\r\n" + field + b"\r\n\r\n"
    (answer,) = answers(peer.send(text, b"a" * 100_000), is_head)
    assert (answer.status, answer.headers["connection"], echo.changes) == (400, "close", [])
    assert peer.closed
    assert Peer(site()).ask(text.replace(field, b"Content-Length: 0"), head=is_head).status in (200, 204)


@pytest.mark.parametrize(
    ("line", "field", "status"),
    [
        (b"POST /echo", b"Content-Length: 65537", 413),
        (b"POST /page", b"Content-Length: 65537", 405),
        (b"PUT /page", b"Content-Length: 7", 405),
        (b"POST /none", b"Content-Length: 7", 404),
        (b"POST /echo", b"Content-Length: 7\r\nOrigin: http://evil.example", 403),
        (b"POST /page", b"Transfer-Encoding: chunked", 405),
        (b"POST /none", b"Transfer-Encoding: chunked", 404),
    ],
)
def test_bodies_refused_unread(line: bytes, field: bytes, status: int) -> None:
    """A body that is too long, or that no resource reads, is refused before it is sent."""
    peer = Peer(site())
    (answer,) = answers(peer.send(line + b" HTTP/1.1\r\nHost: localhost\r\n" + field + b"\r\n\r\n"))
    assert (answer.status, answer.headers["connection"]) == (status, "close") and peer.closed


def test_expect_continue() -> None:
    """A client that asks before it sends its body gets 100 Continue, or is refused without it."""
    head = HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    peer = Peer(site())
    assert peer.send(head % 5) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answers(peer.send(b"hello"))[1].body == b"hello"
    assert Peer(site()).ask(head % 70_000).status == 413
    for text in (head % 5 + b"hello", GET.replace(b"Accept", b"Expect: 100-continue\r\nAccept")):
        assert len(answers(Peer(site()).send(text))) == 1  # nothing to wait for
