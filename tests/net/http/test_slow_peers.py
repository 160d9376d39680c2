"""Connections of peers that are slow to send or to read: how long they may take, and what they hold."""

from __future__ import annotations

import tracemalloc

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from fakedev.net.http.body import PIECE
from fakedev.net.http.response import Response
from tests.support.http_channels import BIG, CHUNKED, GET, POST, site
from tests.support.http_wire import Page, Peer, answers


def test_idle_connection() -> None:
    """A connection without requests is closed after a minute, counted from the last answer."""
    clock = Clock()
    peer = Peer(site(clock))
    clock.advance(59)
    peer.send(GET)
    clock.advance(59)
    assert not peer.closed
    clock.advance(1)
    assert peer.closed and len(answers(peer.transport.value())) == 1


@pytest.mark.parametrize("text", [GET[:-1], POST[:-1], CHUNKED[:-1]])
def test_slow_request(text: bytes) -> None:
    """A request must be there 10 s after its first byte, even when something comes all the time."""
    clock = Clock()
    peer = Peer(site(clock))
    clock.advance(30)
    head, end, body = text.partition(b"\r\n\r\n")
    peer.send(head + end)
    step = 9.9 / max(1, len(body))
    for number in range(len(body)):
        clock.advance(step)
        peer.send(body[number : number + 1])
    assert peer.transport.value() == b"" and not peer.closed
    clock.advance(10 if not body else 0.2)
    peer.read()
    (answer,) = answers(peer.transport.value())
    assert answer.status == 408 and peer.closed


def test_slow_head_byte_by_byte() -> None:
    """Single bytes do not move the deadline of a head."""
    clock = Clock()
    peer = Peer(site(clock))
    for byte in GET[:21]:
        peer.send(bytes([byte]))
        clock.advance(0.5)
    peer.read()
    assert answers(peer.transport.value())[0].status == 408


def test_dropped_peers_are_counted() -> None:
    """By the reason; a peer that only says nothing is closed, but has lost nothing."""
    clock = Clock()
    guarded = site(clock)
    late, deaf, wrong, idle = (Peer(guarded) for _ in range(4))
    late.send(GET[:-1])
    deaf.transport.reading = False
    deaf.send(GET.replace(b"page", b"big"))
    wrong.send(b"\0\r\n\r\n")
    clock.pump([1] * 61)
    late.read()
    assert late.closed and deaf.closed and wrong.closed and idle.closed
    idle.leave()
    clock.pump([1] * 60)
    assert guarded.dropped == {"late": 1, "unread": 1, "refused": 1}


def test_empty_lines_do_not_keep_a_connection() -> None:
    """Empty lines are no request: the connection is idle."""
    clock = Clock()
    peer = Peer(site(clock))
    for _ in range(60):
        peer.send(b"\r\n")
        clock.advance(1)
    assert peer.closed and peer.transport.value() == b""


def test_answer_may_take_its_time() -> None:
    """While a resource thinks, no time limit runs."""
    clock = Clock()
    waiting: Deferred[Response] = Deferred()
    peer = Peer(site(clock, slow=Page(lambda _: waiting)))
    peer.send(GET.replace(b"page", b"slow"))
    clock.advance(1000)
    waiting.callback(Response(200, b"at last"))
    peer.read()
    assert answers(peer.transport.value())[0].body == b"at last"


@pytest.mark.parametrize("path", [b"big", b"page"])
def test_peer_that_never_reads(path: bytes) -> None:
    """A peer that asks and never reads is dropped after 10 s, and until then holds one piece at most."""
    clock = Clock()
    peer = Peer(site(clock))
    peer.transport.reading = False
    peer.send(GET.replace(b"page", path) * 1000)
    assert peer.transport.largest_unsent <= 2 * PIECE
    clock.advance(9.9)
    assert not peer.transport.disconnected
    clock.advance(0.1)
    assert peer.transport.disconnected
    assert peer.transport.producer is None


def test_peers_that_never_read_share_the_page() -> None:
    """A thousand such peers hold no copy of a page of 2.5 MB: the transports have its own pieces."""
    guarded = site()
    peers = [Peer(guarded) for _ in range(1000)]
    for peer in peers:
        peer.transport.reading = False
    tracemalloc.start()
    for peer in peers:
        peer.send(GET.replace(b"page", b"big"))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 1000 * PIECE / 4
    assert all(peer.transport.unsent[-1] is BIG.pieces[0] for peer in peers)


def test_peer_that_reads_slowly() -> None:
    """A peer that takes a piece now and then gets everything, however long that takes; the next request follows."""
    clock = Clock()
    peer = Peer(site(clock))
    peer.transport.reading = False
    peer.send(GET.replace(b"page", b"big") + GET)
    while peer.transport.unsent:
        clock.advance(9)
        peer.transport.reading = True
        peer.transport.flush()
        peer.transport.reading = False
    first, second = answers(peer.transport.value())
    assert first.body == bytes(BIG) and second.body == b"content"
    assert not peer.closed and clock.seconds() > 300


def test_peer_that_stops_reading_while_closing() -> None:
    """Also a connection that waits to be closed is dropped when its peer does not read."""
    clock = Clock()
    peer = Peer(site(clock))
    peer.transport.reading = False
    peer.send(b"GET /page HTTP/1.0\r\n\r\n")
    assert peer.closed and not peer.transport.disconnected
    clock.advance(10)
    assert peer.transport.disconnected


def test_reading_ahead_is_bounded() -> None:
    """While one request is answered, some more are read; then the transport is paused, and resumed later."""
    waiting: Deferred[Response] = Deferred()
    peer = Peer(site(slow=Page(lambda _: waiting)))
    peer.send(GET.replace(b"page", b"slow"))
    while peer.transport.producerState == "producing":
        peer.send(GET)
    waiting.callback(Response())
    peer.read()
    assert peer.transport.producerState == "producing"
    assert 16 * 1024 / len(GET) < len(answers(peer.transport.value())) < 32 * 1024 / len(GET)


@pytest.mark.parametrize("text", [GET, POST, CHUNKED])
@pytest.mark.parametrize("seen", [1, 21, -1])
def test_input_that_waited_during_a_pause(text: bytes, seen: int) -> None:
    """The process stops for half a minute, and the rest of a request arrives meanwhile: it is answered, not late."""
    clock = Clock()
    peer = Peer(site(clock))
    peer.send(text[:seen])
    clock.advance(30)  # the reactor calls what is due before it reads
    peer.read()
    assert peer.transport.value() == b""
    (answer,) = answers(peer.send(text[seen:]))
    assert answer.status in (200, 201) and not peer.closed


def test_pause_without_input() -> None:
    """After a pause a silent peer has another second, not more; and so has a peer that reads nothing."""
    clock = Clock()
    silent, lazy = Peer(site(clock)), Peer(site(clock))
    silent.send(GET[:-1])
    lazy.transport.reading = False
    lazy.send(GET)
    clock.advance(30)
    assert not silent.closed and not lazy.transport.disconnected
    clock.advance(0.9)
    assert not silent.closed and not lazy.transport.disconnected
    clock.advance(0.1)
    silent.read()
    assert answers(silent.transport.value())[0].status == 408 and silent.closed
    assert lazy.transport.disconnected


def test_no_timers_are_left() -> None:
    """A connection that is gone leaves nothing behind in the reactor."""
    clock = Clock()
    peers = [Peer(site(clock)) for _ in range(3)]
    peers[0].send(GET)
    peers[1].send(GET[:10])
    for peer in peers:
        peer.leave()
    assert not clock.getDelayedCalls()
