"""Connections: framing, refusals, bodies, their end."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock, StringTransport

from fakedev import __version__
from fakedev.net.http.limits import DROP_IN_LIMITS
from fakedev.net.http.response import Response
from fakedev.net.http.site import GuardedSite
from tests.support.http_channels import CHUNKED, GET, POST, limited, site
from tests.support.http_wire import Echo, Page, Peer, answers


@pytest.mark.parametrize(("request_text", "body"), [(GET, b"content"), (POST, b"hello"), (CHUNKED, b"hello")])
def test_chopped_at_every_byte(request_text: bytes, body: bytes) -> None:
    """However a request is cut, in two or in single bytes, its answer is the same."""
    whole = Peer(site()).send(request_text)
    assert answers(whole)[0].body == body
    for cut in range(1, len(request_text)):
        assert Peer(site()).send(request_text[:cut], request_text[cut:]) == whole
    assert Peer(site()).send(*(request_text[i : i + 1] for i in range(len(request_text)))) == whole


def test_headers_of_an_answer() -> None:
    """An answer names the simulator, its length, and that it depends on Accept-Encoding."""
    answer = Peer(site()).ask(GET)
    assert answer.status == 200
    assert answer.headers == {
        "server": f"fakedev/{__version__} (simulated)",
        "date": "Thu, 01 Jan 1970 00:00:00 GMT",
        "content-type": "text/plain; charset=utf-8",
        "content-length": "7",
        "vary": "Accept-Encoding",
    }


def test_pipelined_requests() -> None:
    """Requests sent at once are answered in order, in segments of any length, also after a body."""
    text = GET + POST + GET.replace(b"page", b"none") + b"\r\n" + CHUNKED + GET
    for cut in range(1, len(text)):
        found = answers(Peer(site()).send(text[:cut], text[cut:]))
        assert [answer.status for answer in found] == [200, 201, 404, 201, 200]


def test_pipelined_behind_a_slow_one() -> None:
    """A request waits for the one before it; nothing is answered out of order."""
    waiting: Deferred[Response] = Deferred()
    peer = Peer(site(slow=Page(lambda _: waiting)))
    assert peer.send(GET.replace(b"page", b"slow") + GET) == b""
    waiting.callback(Response(200, b"slow"))
    peer.read()
    assert [answer.body for answer in answers(peer.transport.value())] == [b"slow", b"content"]


def test_keep_alive_and_close() -> None:
    """A connection stays open for HTTP/1.1, and is closed when asked and for HTTP/1.0."""
    peer = Peer(site())
    peer.send(GET, GET)
    assert not peer.closed and len(answers(peer.transport.value())) == 2
    peer.send(GET.replace(b"Accept: */*", b"Connection: close"))
    assert peer.closed
    assert answers(peer.transport.value())[2].headers["connection"] == "close"
    old = Peer(site())
    assert old.send(b"GET /page HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 200 OK\r\n")
    assert old.closed


def test_what_follows_a_close_is_dropped() -> None:
    """After a request that closes nothing more is answered."""
    peer = Peer(site())
    assert len(answers(peer.send(b"GET /page HTTP/1.0\r\n\r\n" + GET, GET))) == 1


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * 20_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"Name: value\r\n" * 2000 + b"\r\n", 431),
        (b"hello\r\n", 400),
        (b"GET / HTTP/3.0\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", 400),
    ],
)
def test_bad_heads(text: bytes, status: int) -> None:
    """A head that is too long or is none gets its status, in any segments, and the connection is closed."""
    for segments in ([text], [text[i : i + 1000] for i in range(0, len(text), 1000)]):
        peer = Peer(site())
        (answer,) = answers(peer.send(*segments))
        assert answer.status == status
        assert answer.headers["connection"] == "close"
        assert answer.body.endswith(b"\n")
        assert peer.closed


def test_drop_in_limits() -> None:
    """Ports that replace the originals accept 4 KiB of head in all."""
    guarded = GuardedSite(site().resource, Clock(), limits=DROP_IN_LIMITS)
    lines = b"Name: value\r\n" * 320
    assert Peer(site()).ask(GET[:-2] + lines + b"\r\n").status == 200
    assert Peer(guarded).ask(GET[:-2] + lines + b"\r\n").status == 431
    assert Peer(guarded).ask(GET).status == 200


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"DELETE"])
@pytest.mark.parametrize("field", [b"Content-Length: 1000000000", b"Transfer-Encoding: chunked"])
def test_body_where_none_belongs(method: bytes, field: bytes) -> None:
    """A body on GET, HEAD or DELETE is refused after the headers, and does nothing; a length of 0 is no body."""
    echo = Echo()
    peer = Peer(site(echo=echo))
    text = method + b" /echo HTTP/1.1\r\nHost: localhost\r\n" + field + b"\r\n\r\n"
    (answer,) = answers(peer.send(text), heads=method == b"HEAD")
    assert (answer.status, answer.headers["connection"]) == (400, "close")
    assert peer.closed and not echo.changes
    peer.send(b"a" * 100_000)
    assert len(answers(peer.transport.value(), heads=method == b"HEAD")) == 1
    (answer,) = answers(Peer(site()).send(text.replace(field, b"Content-Length: 0")), heads=method == b"HEAD")
    assert answer.status in (200, 204)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65537\r\n\r\n", 413),
        (b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n", 413),
        (b"POST /page HTTP/1.1\r\nHost: localhost\r\nContent-Length: 65537\r\n\r\n", 405),
        (b"PUT /page HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\n\r\n", 405),
        (b"POST /none HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\n\r\n", 404),
        (b"POST /echo HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 7\r\n\r\n", 403),
        (b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
    ],
)
def test_bodies_refused_unread(text: bytes, status: int) -> None:
    """A body that is too long, or that no resource reads, is refused before it is sent."""
    peer = Peer(site())
    (answer,) = answers(peer.send(text))
    assert (answer.status, answer.headers["connection"]) == (status, "close")
    assert peer.closed


def test_largest_body() -> None:
    """64 KiB are taken, plain and in chunks."""
    body = b"a" * 65536
    head = b"POST /echo HTTP/1.1\r\nHost: localhost\r\n"
    assert Peer(site()).ask(head + b"Content-Length: 65536\r\n\r\n" + body).body == body
    chunks = b"8000\r\n" + body[:0x8000] + b"\r\n8000\r\n" + body[0x8000:] + b"\r\n0\r\n\r\n"
    assert Peer(site()).ask(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks).body == body


def test_expect_continue() -> None:
    """A client that asks before it sends its body gets 100 Continue, or is refused without it."""
    head = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    peer = Peer(site())
    assert peer.send(head % 5) == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answers(peer.send(b"hello"))[1].body == b"hello"
    assert Peer(site()).ask(head % 70_000).status == 413


def test_end_of_input() -> None:
    """A peer that has closed its sending side gets the answers to all complete requests, then the end."""
    waiting: Deferred[Response] = Deferred()
    peer = Peer(site(slow=Page(lambda _: waiting)))
    peer.send(GET + GET.replace(b"page", b"slow") + GET)
    peer.end_input()
    assert not peer.closed
    waiting.callback(Response(200, b"slow"))
    peer.read()
    assert [answer.body for answer in answers(peer.transport.value())] == [b"content", b"slow", b"content"]
    assert peer.closed


@pytest.mark.parametrize("text", [GET[:20], POST[:-1], CHUNKED[:-1]])
def test_end_of_input_in_a_request(text: bytes) -> None:
    """A request that will never be complete gets an error."""
    peer = Peer(site())
    peer.send(text)
    peer.end_input()
    assert answers(peer.transport.value())[0].status == 400
    assert peer.closed


def test_refusal_lingers() -> None:
    """After a refusal the rest of what the peer sends is read for a moment, so that the answer is not lost to it."""
    clock = Clock()
    peer = Peer(site(clock))
    peer.send(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n")
    assert peer.transport.half_closed and not peer.transport.disconnecting
    peer.send(b"a" * 100_000)
    clock.advance(2)
    assert peer.transport.disconnecting
    endless = Peer(site(clock))
    endless.send(b"hello\r\n", *[b"a" * 65536] * 17)
    assert endless.transport.disconnecting


def test_too_many_connections() -> None:
    """A connection beyond the limit gets 503; when one has closed there is room again."""
    guarded = limited(Clock(), max_connections=2)
    first, _second, third = Peer(guarded), Peer(guarded), Peer(guarded)
    third.read()
    assert answers(third.transport.value())[0].status == 503 and third.closed
    third.leave()
    first.leave()
    assert Peer(guarded).ask(GET).status == 200
    crowd = [guarded.buildProtocol(None) for _ in range(3)]
    assert all(crowd)


def test_flood_of_connections() -> None:
    """Far beyond the limit connections are closed without a word."""
    guarded = limited(Clock(), max_connections=2)
    peers = [Peer(guarded) for _ in range(103)]
    assert guarded.buildProtocol(None) is None
    assert guarded.dropped == {"full": 102}
    for peer in peers:
        peer.leave()
    assert not guarded.channels and guarded.buildProtocol(None) is not None


def test_shut_down() -> None:
    """When the site is shut down idle connections are closed, and one that waits gets its answer first."""
    waiting: Deferred[Response] = Deferred()
    guarded = site(slow=Page(lambda _: waiting))
    idle, busy = Peer(guarded), Peer(guarded)
    busy.send(GET.replace(b"page", b"slow"))
    guarded.shut_down()
    assert idle.closed and not busy.closed
    waiting.callback(Response(200, b"done"))
    busy.read()
    assert busy.closed and answers(busy.transport.value())[0].body == b"done"


def test_simple_transports_will_do() -> None:
    """In a memory reactor, on a StringTransport, requests are answered as long as the answers are small."""
    reactor = MemoryReactorClock()
    guarded = GuardedSite(site().resource, reactor)
    reactor.listenTCP(9400, guarded)
    guarded.doStart()
    channel: Any = reactor.tcpServers[0][1].buildProtocol(None)
    transport = StringTransport()
    channel.makeConnection(transport)
    channel.dataReceived(GET + GET)
    assert [answer.body for answer in answers(transport.value())] == [b"content", b"content"]
    guarded.doStop()
