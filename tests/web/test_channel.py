"""Connections: pipelining, their end, and how many there are."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock, StringTransport

from fakedev import __version__
from fakedev.web.http_limits import HttpLimits
from fakedev.web.response import Response
from fakedev.web.site import Site
from tests.support.wire.http_channels import CHUNKED, GET, POST, site
from tests.support.wire.http_wire import Page, Peer, answers


def test_headers_of_an_answer() -> None:
    answer = Peer(site()).ask(GET)
    assert answer.status == 200
    assert answer.headers == {
        "server": f"fakedev/{__version__} (simulated)",
        "date": "Thu, 01 Jan 1970 00:00:00 GMT",
        "content-type": "text/plain; charset=utf-8",
        "content-length": "7",
        "vary": "Accept-Encoding",
    }


@pytest.mark.slow
def test_pipelined_requests() -> None:
    """Requests sent at once are answered in order, in segments of any length, also after a body."""
    text = GET + POST + GET.replace(b"page", b"none") + b"\r\n" + CHUNKED + GET
    for cut in range(1, len(text)):
        found = answers(Peer(site()).send(text[:cut], text[cut:]))
        assert [answer.status for answer in found] == [200, 201, 404, 201, 200]


def test_pipelined_behind_a_slow_one() -> None:
    waiting: Deferred[Response] = Deferred()
    peer = Peer(site(slow=Page(lambda _: waiting)))
    assert peer.send(GET.replace(b"page", b"slow") + GET) == b""
    waiting.callback(Response(200, b"slow"))
    peer.read()
    assert [answer.body for answer in answers(peer.transport.value())] == [b"slow", b"content"]


@pytest.mark.parametrize(
    "last",
    [
        *(GET.replace(b"Accept: */*", line) for line in (
            b"Connection: close", b"connection: keep-alive, Close", b"Connection:close",
        )),
        b"GET /page HTTP/1.0\r\n\r\n",
    ],
)  # fmt: skip
def test_keep_alive_and_close(last: bytes) -> None:
    """A connection stays open for HTTP/1.1, and is closed when one token says so and for HTTP/1.0."""
    peer = Peer(site())
    peer.send(GET, GET)
    assert not peer.closed and len(answers(peer.transport.value())) == 2
    peer.send(last + GET, GET)
    assert peer.closed
    assert [answer.headers.get("connection") for answer in answers(peer.transport.value())] == [None, None, "close"]
    assert peer.transport.value().count(b"HTTP/1.0 200 OK\r\n") == last.count(b"HTTP/1.0")


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


def busy(guarded: Site) -> Peer:
    """A peer that waits for an answer that does not come."""
    peer = Peer(guarded)
    peer.send(GET.replace(b"page", b"slow"))
    return peer


def crowded(clock: Clock, most: int) -> Site:
    """A site of few connections."""
    resource = site(slow=Page(lambda _: Deferred())).resource
    return Site(resource, clock, limits=HttpLimits(max_connections=most))


def test_too_many_connections() -> None:
    """When all are busy a connection beyond the limit gets 503; when one has closed there is room again."""
    clock = Clock()
    guarded = crowded(clock, 2)
    first, _second, third = busy(guarded), busy(guarded), Peer(guarded)
    third.read()
    assert answers(third.transport.value())[0].status == 503 and third.closed
    third.leave()
    first.leave()
    assert Peer(guarded).ask(GET).status == 200


def test_idle_connections_make_room() -> None:
    """The longest idle one of the host with the most is closed for a new one; others, and busy ones, stay."""
    guarded = crowded(Clock(), 5)
    peers = []
    for host in ("192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.2"):
        peers.append(Peer(guarded, host=host))
    peers.append(busy(guarded))
    peers[1].send(GET)  # so the one after it is idle for longer
    assert Peer(guarded).ask(GET).status == 200
    assert [peer.closed for peer in peers] == [False, False, True, False, False]
    assert guarded.dropped == {"full": 1} and len(guarded.channels) == 5


def test_half_heads_make_room() -> None:
    """After connections without a request those with a part of one; a host with fewer connections loses none."""
    guarded = crowded(Clock(), 4)
    scraper = Peer(guarded, host="192.0.2.1")
    halves = [Peer(guarded, host="192.0.2.2") for _ in range(3)]
    for peer in halves:
        peer.send(GET[:20])
    silent, other = Peer(guarded, host="192.0.2.2"), Peer(guarded, host="192.0.2.3")
    assert other.ask(GET).status == 200
    kept = [peer.channel in guarded.channels for peer in (scraper, *halves, silent, other)]
    assert kept == [True, False, True, True, False, True]


def test_the_host_with_all_connections_is_refused() -> None:
    """When all its connections are busy, its next one does not take the place of another host's."""
    guarded = crowded(Clock(), 3)
    scraper = Peer(guarded, host="192.0.2.1")
    busy(guarded), busy(guarded)
    assert answers(Peer(guarded).send(b""))[0].status == 503
    assert not scraper.closed


def test_flood_of_connections() -> None:
    """Far beyond the limit connections are closed without a word."""
    guarded = crowded(Clock(), 2)
    peers = [busy(guarded) for _ in range(103)]
    assert guarded.buildProtocol(None) is None
    assert guarded.dropped == {"full": 102}
    for peer in peers:
        peer.leave()
    assert not guarded.channels and guarded.buildProtocol(None) is not None


def test_shut_down() -> None:
    waiting: Deferred[Response] = Deferred()
    guarded = site(slow=Page(lambda _: waiting))
    idle, busy, refused = Peer(guarded), Peer(guarded), Peer(guarded)
    busy.send(GET.replace(b"page", b"slow"))
    refused.send(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999\r\n\r\n")
    guarded.shut_down()
    assert idle.closed and not busy.closed
    assert refused.transport.disconnecting
    waiting.callback(Response(200, b"done"))
    busy.read()
    assert busy.closed and answers(busy.transport.value())[0].body == b"done"


def test_simple_transports_will_do() -> None:
    """In a memory reactor, on a StringTransport, requests are answered as long as the answers are small."""
    reactor = MemoryReactorClock()
    guarded = Site(site().resource, reactor)
    reactor.listenTCP(9400, guarded)
    guarded.doStart()
    channel: Any = reactor.tcpServers[0][1].buildProtocol(None)
    transport = StringTransport()
    channel.makeConnection(transport)
    channel.dataReceived(GET + GET)
    assert [answer.body for answer in answers(transport.value())] == [b"content", b"content"]
    guarded.doStop()
