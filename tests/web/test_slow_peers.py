"""Connections of peers that are slow to send or to read: how long they may take, and what they hold."""

from __future__ import annotations

import tracemalloc

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from fakedev.web.encoding import PIECE
from fakedev.web.response import Response
from fakedev.web.site import Site
from tests.support.wire.http_channels import BIG, CHUNKED, GET, POST, site
from tests.support.wire.http_wire import Answer, Page, Peer, answers

GET_BIG, GET_SLOW = GET.replace(b"page", b"big"), GET.replace(b"page", b"slow")


@pytest.fixture
def clock() -> Clock:
    return Clock()


def deaf(served: Site, *segments: bytes) -> Peer:
    """A peer that sends something, and reads nothing."""
    peer = Peer(served)
    peer.transport.reading = False
    peer.send(*segments)
    return peer


def answered(peer: Peer) -> list[Answer]:
    peer.read()
    return answers(peer.transport.value())


def test_idle_connection(clock: Clock) -> None:
    """A connection is closed a minute after its last answer; empty lines are no request."""
    peer, empty = Peer(site(clock)), Peer(site(clock))
    clock.advance(59)
    peer.send(GET)
    for _ in range(59):
        clock.advance(1)
        empty.send(b"\r\n")
    assert empty.closed and empty.transport.value() == b""
    assert not peer.closed
    clock.advance(1)
    assert peer.closed and len(answered(peer)) == 1


@pytest.mark.parametrize("text", [GET[:-1], POST[:-1], CHUNKED[:-1]])
def test_slow_request(clock: Clock, text: bytes) -> None:
    """A head must be there 10 s after its first byte, and a body after its head, even when bytes come all the time."""
    peer = Peer(site(clock))
    clock.advance(30)
    head, end, body = text.partition(b"\r\n\r\n")
    slow = body or head[1:21]
    peer.send(head + end if body else head[:1])
    for number in range(len(slow)):
        clock.advance(9.9 / len(slow))
        peer.send(slow[number : number + 1])
    assert peer.transport.value() == b"" and not peer.closed
    clock.advance(0.2)
    assert [answer.status for answer in answered(peer)] == [408] and peer.closed


def test_dropped_peers_are_counted(clock: Clock) -> None:
    """By the reason; a peer that only says nothing is closed, but has lost nothing."""
    guarded = site(clock)
    late, wrong, idle = (Peer(guarded) for _ in range(3))
    late.send(GET[:-1])
    wrong.send(b"\0\r\n\r\n")
    unread = deaf(guarded, GET_BIG)
    clock.pump([1] * 61)
    late.read()
    assert late.closed and unread.closed and wrong.closed and idle.closed
    idle.leave()
    clock.pump([1] * 60)
    assert guarded.dropped == {"late": 1, "unread": 1, "refused": 1}


def test_answer_may_take_its_time(clock: Clock) -> None:
    """While a resource thinks, no time limit runs."""
    waiting: Deferred[Response] = Deferred()
    peer = Peer(site(clock, slow=Page(lambda _: waiting)))
    peer.send(GET_SLOW)
    clock.advance(1000)
    waiting.callback(Response(200, b"at last"))
    assert answered(peer)[0].body == b"at last"


@pytest.mark.parametrize("text", [GET_BIG * 1000, GET * 1000, b"GET /page HTTP/1.0\r\n\r\n"])
def test_peer_that_never_reads(clock: Clock, text: bytes) -> None:
    """It is dropped after 10 s, also while its connection is being closed; until then it holds one piece at most."""
    peer = deaf(site(clock), text)
    assert peer.transport.largest_unsent <= 2 * PIECE
    clock.advance(9.9)
    assert not peer.transport.disconnected
    clock.advance(0.1)
    assert peer.transport.disconnected and peer.transport.producer is None


@pytest.mark.parametrize("text", [GET_BIG, GET])
def test_pipelining_without_reading(text: bytes) -> None:
    """Of a peer that sends requests without end and reads no answer, a bounded part is read and answered."""
    guarded = site()
    peer = deaf(guarded)
    sent = 0
    while peer.transport.producerState == "producing":
        peer.send(text * 10)
        sent += 10
        assert sent < 10_000
    assert peer.transport.largest_unsent <= 2 * PIECE
    peer.transport.reading = True
    peer.read()
    assert guarded.codes == {200: sent}


@pytest.mark.slow
def test_peers_that_never_read_share_the_page() -> None:
    """A thousand such peers hold no copy of a page of 2.5 MB: the transports have its own pieces."""
    guarded = site()
    peers = [deaf(guarded) for _ in range(1000)]
    tracemalloc.start()
    for peer in peers:
        peer.send(GET_BIG)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 1000 * PIECE / 4
    assert all(peer.transport.unsent[-1] is BIG.pieces[0] for peer in peers)


def test_peer_that_reads_slowly(clock: Clock) -> None:
    """A peer that takes a piece now and then gets everything, however long that takes; the next request follows."""
    peer = deaf(site(clock), GET_BIG + GET)
    while peer.transport.unsent:
        clock.advance(9)
        peer.transport.reading = True
        peer.transport.flush()
        peer.transport.reading = False
    assert [answer.body for answer in answers(peer.transport.value())] == [bytes(BIG), b"content"]
    assert not peer.closed and clock.seconds() > 300


def test_reading_ahead_is_bounded() -> None:
    """While one request is answered, some more are read; then the transport is paused, and resumed later."""
    waiting: Deferred[Response] = Deferred()
    peer = Peer(site(slow=Page(lambda _: waiting)))
    peer.send(GET_SLOW)
    while peer.transport.producerState == "producing":
        peer.send(GET)
    waiting.callback(Response())
    assert 16 * 1024 / len(GET) < len(answered(peer)) < 32 * 1024 / len(GET)
    assert peer.transport.producerState == "producing"


@pytest.mark.parametrize("text", [GET, POST, CHUNKED])
@pytest.mark.parametrize("seen", [1, 21, -1])
def test_input_that_waited_during_a_pause(clock: Clock, text: bytes, seen: int) -> None:
    """The process stops for half a minute, and the rest of a request arrives meanwhile: it is answered, not late."""
    peer = Peer(site(clock))
    peer.send(text[:seen])
    clock.advance(30)  # the reactor calls what is due before it reads
    assert answered(peer) == []
    (answer,) = answers(peer.send(text[seen:]))
    assert answer.status in (200, 201) and not peer.closed


def test_pause_without_input(clock: Clock) -> None:
    """After a pause a silent peer has another second, not more; and so has a peer that reads nothing."""
    silent = Peer(site(clock))
    silent.send(GET[:-1])
    lazy = deaf(site(clock), GET)
    for seconds in (30, 0.9):
        clock.advance(seconds)
        assert not silent.closed and not lazy.transport.disconnected
    clock.advance(0.1)
    assert answered(silent)[0].status == 408 and silent.closed
    assert lazy.transport.disconnected


def test_no_timers_are_left(clock: Clock) -> None:
    """A connection that is gone leaves nothing behind in the reactor."""
    for text in (GET, GET[:10], b""):
        peer = Peer(site(clock))
        peer.send(text)
        peer.leave()
    assert not clock.getDelayedCalls()
