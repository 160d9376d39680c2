"""Answers on their way: what slow peers keep in memory is bounded."""

from __future__ import annotations

from twisted.internet.task import Clock

from fakedev.web.encoding import PIECE
from fakedev.web.response import Response
from fakedev.web.sending import MAX_TIMES, InFlightBodies
from tests.support.wire.http_wire import Page, Peer, make_site


class Readers:
    """Peers that read bodies of ten bytes, or of some other number.

    :ivar dropped: those who were dropped, in order.
    """

    def __init__(self, max_bytes: int) -> None:
        self.held = InFlightBodies(max_bytes)
        self.dropped: list[str] = []

    def begin(self, name: str, pieces: tuple[bytes, ...]) -> None:
        """A peer begins to read."""
        self.held.add(name, pieces, lambda: self.dropped.append(name))


def body(size: int = 10) -> tuple[bytes, ...]:
    """A new body in two pieces."""
    return bytes(size // 2), bytes(size - size // 2)


def test_a_body_counts_once() -> None:
    """However many read it; it is let go with the last of them."""
    readers, page = Readers(100), body()
    for name in "abc":
        readers.begin(name, page)
    assert readers.held.held_bytes == 10
    for name, left in (("b", 10), ("a", 10), ("a", 10), ("c", 0), ("never came", 0)):
        readers.held.remove(name)
        assert readers.held.held_bytes == left
    assert readers.dropped == []


def test_readers_of_the_oldest_are_dropped() -> None:
    """As many as needed, and all of one body; those of newer bodies, and of the newest, continue."""
    readers = Readers(100)
    first, second = body(), body()
    for name, pieces in (("a", first), ("b", second), ("c", first)):
        readers.begin(name, pieces)
    for number in range(8):
        readers.begin(str(number), body())
    assert (readers.dropped, readers.held.held_bytes) == ([], 100)
    readers.begin("more", body())
    assert (readers.dropped, readers.held.held_bytes) == (["a", "c"], 100)
    readers.begin("much more", body(12))
    assert readers.dropped == ["a", "c", "b", "0"]
    assert readers.held.held_bytes == 92


def test_who_has_read_all_is_not_dropped() -> None:
    """Later, when there is too much."""
    readers = Readers(20)
    readers.begin("quick", body())
    readers.held.remove("quick")
    for number in range(MAX_TIMES + 1):
        readers.begin(str(number), body())
    assert readers.dropped == ["0"]


def test_large_pages() -> None:
    """Some pages of the newest's size are always allowed, for any size."""
    readers = Readers(20)
    for number in range(MAX_TIMES):
        readers.begin(str(number), body(1000))
    assert readers.dropped == []
    readers.begin("last", body(1000))
    assert readers.dropped == ["0"]
    readers.begin("small", body(2))
    assert readers.dropped[-1] == "last"
    assert readers.held.held_bytes == 2


def test_a_page_of_each_tick_for_peers_that_never_read() -> None:
    """Each gets another body; the oldest are dropped when the newest comes, and a peer that reads has its answer."""
    made: list[Response] = []

    def tick(_: object) -> Response:
        made.append(Response(200, bytes(3 * PIECE)))
        return made[-1]

    guarded = make_site(Clock(), page=Page(tick))
    guarded.held = InFlightBodies(PIECE)
    slow = []
    for number in range(MAX_TIMES + 4):
        slow.append(peer := Peer(guarded))
        peer.transport.reading = False
        peer.send(b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n")
        dropped = [each.transport.disconnected for each in slow]
        assert dropped == [place <= number - MAX_TIMES for place in range(number + 1)]
    reader = Peer(guarded)
    assert reader.ask(b"GET /page HTTP/1.1\r\nHost: x\r\n\r\n").body == bytes(3 * PIECE)
    assert not reader.closed
    for each in slow:
        each.leave()
    assert guarded.held.held_bytes == 0
