"""Peers that are many, send much, or do not read: they are bounded, and disturb no other peer."""

from __future__ import annotations

import pytest
from twisted.internet import main
from twisted.internet.task import Clock

from fakedev.lines.json_lines import Notification, Reply
from fakedev.lines.outbox import CHUNK_BYTES, MAX_BYTES
from fakedev.lines.port_limits import LINGER_SECONDS, PATIENCE_SECONDS
from fakedev.runtime.turns import FairShare
from tests.support.wire.line_peers import TurnClock, connect, connect_descriptor, make_factory

LISTED = b"ok 2 lines\none\ntwo\n"


def spends(clock, seconds):
    def request_received(request):
        clock.rightNow += seconds
        return Reply()

    return request_received


class Worker:
    """Takes turns, and notes them."""

    waits_for_ticks = False

    def __init__(self, name, slices, turns_taken, clock=None, seconds=0.0, asks=None, host=""):
        self.name = name
        self.origin = host
        self.slices = slices
        self.turns_taken = turns_taken
        self.clock = clock
        self.seconds = seconds
        self.asks = asks

    def take_turn(self):
        self.turns_taken.append(self.name)
        if self.clock:
            self.clock.rightNow += self.seconds
        if self.asks:
            self.asks()
        self.slices -= 1
        return self.slices > 0


class TestTurns:
    """Turns: when which peer may work."""

    def setup_method(self):
        self.clock = TurnClock()
        self.fair_share = FairShare(self.clock, turn_seconds=0.010)
        self.taken = []

    def test_at_once_when_there_is_time(self):
        self.fair_share.request_turn(Worker("a", 1, self.taken))
        assert self.taken == ["a"]
        assert self.clock.getDelayedCalls() == []

    def test_slices_alternate(self):
        for name, slices in (("a", 4), ("b", 2), ("c", 1)):
            self.fair_share.request_turn(Worker(name, slices, self.taken))
        for expected in ("abc", "abcab", "abcaba", "abcabaa"):
            assert "".join(self.taken) == expected
            self.clock.turn()
        assert self.clock.getDelayedCalls() == []

    def test_short_work_before_long(self):
        """New requests come before unfinished ones; these have at least one turn."""
        for name in "abc":
            self.fair_share.request_turn(Worker(name, 9, self.taken, self.clock, seconds=0.004))
        for name in "xyzuvw":
            self.fair_share.request_turn(Worker(name, 1, self.taken, self.clock, seconds=0.004))
        for expected in ("abc", "abcxyza", "abcxyzauvwb", "abcxyzauvwbcab"):
            assert "".join(self.taken) == expected
            self.clock.turn()

    def test_hosts_get_the_same_time(self):
        """However many connections they have, and however short the slices of another host are."""
        for number in range(30):
            host, seconds = ("long", 0.005) if number < 10 else ("short", 0.0025)
            self.fair_share.request_turn(Worker(host[0], 1, self.taken, self.clock, seconds, host=host))
        for _ in range(3):
            self.clock.turn()
            used = 0.005 * self.taken.count("l"), 0.0025 * self.taken.count("s")
            assert min(used) > 0.009 and max(used) < min(used) + 0.006

    def test_a_modest_host_waits_for_two_turns_at_most(self):
        """Ten others use up all the time, with short and with long work on a hundred connections each."""
        def again(worker):
            return lambda: self.fair_share.request_turn(worker)

        for number in range(1000):
            worker = Worker("x", 10**6, self.taken, self.clock, 0.005, host=f"host {number % 10}")
            worker.asks = again(Worker("y", 1, self.taken, self.clock, 0.002, host=worker.origin))
            self.fair_share.request_turn(worker, is_long=number % 2 == 0)
        for _ in range(50):
            self.clock.turn()
        for _ in range(10):
            self.taken.clear()
            self.fair_share.request_turn(Worker("modest", 1, self.taken, self.clock, 0.001, host="modest"))
            self.clock.turn()
            self.clock.turn()
            assert "modest" in self.taken

    def test_no_claim_to_time_that_was_not_used(self):
        """A host that was silent while others worked is served next, and then shares with them."""
        for _ in range(50):
            self.fair_share.request_turn(Worker("a", 1, self.taken, self.clock, 0.005, host="a"))
        for _ in range(5):
            self.clock.turn()
        self.taken.clear()
        for _ in range(50):
            self.fair_share.request_turn(Worker("b", 1, self.taken, self.clock, 0.005, host="b"))
        for _ in range(5):
            self.clock.turn()
        assert sorted(self.taken) == ["a"] * 5 + ["b"] * 5

    def test_asked_again_in_the_own_turn(self):
        """Who is not done, and has asked for another turn meanwhile, has one."""
        worker = Worker("a", 3, self.taken)
        worker.asks = lambda: self.fair_share.request_turn(worker, is_long=True)
        self.fair_share.request_turn(worker)
        for _ in range(5):
            self.clock.turn()
        assert "".join(self.taken[:3]) == "aaa"

    def test_much_work_from_the_start(self):
        """Who says so has its turns after all others, as those that are not done."""
        for name in "abcd":
            worker = Worker(name, 9, self.taken, self.clock, seconds=0.004)
            self.fair_share.request_turn(worker, is_long=True)
        for name in "xyzuvw":
            self.fair_share.request_turn(Worker(name, 1, self.taken, self.clock, seconds=0.004))
        for expected in ("axy", "axyzuva", "axyzuvawbc", "axyzuvawbcdab"):
            assert "".join(self.taken) == expected
            self.clock.turn()

    def test_a_turn_of_the_reactor_is_bounded(self):
        """However many ask, after 10 ms the rest wait for the next turn."""
        for name in "abcdefgh":
            self.fair_share.request_turn(Worker(name, 1, self.taken, self.clock, seconds=0.004))
        for expected in ("abc", "abcdef", "abcdefgh"):
            assert "".join(self.taken) == expected
            self.clock.turn()
        self.fair_share.request_turn(Worker("i", 1, self.taken))
        assert self.taken[-1] == "i"

    def test_asking_while_working(self):
        depth = []
        inner = Worker("inner", 1, self.taken, asks=lambda: depth.append(len(self.taken)))
        self.fair_share.request_turn(Worker("outer", 1, self.taken, asks=lambda: self.fair_share.request_turn(inner)))
        assert self.taken == ["outer"]
        self.clock.advance(0)
        assert self.taken == ["outer", "inner"]

    def test_a_fault_stops_no_other_peer(self, logged_errors):
        self.fair_share.request_turn(Worker("a", 1, self.taken, asks=lambda: 1 / 0))
        assert len(logged_errors.take(ZeroDivisionError)) == 1
        self.fair_share.request_turn(Worker("b", 1, self.taken))
        assert self.taken == ["a", "b"]


class TestFlood:
    """A peer that sends very much."""

    @pytest.mark.slow
    def test_in_slices_and_others_in_between(self):
        """80,000 lines in one read are served 256 at a time; another peer is served meanwhile."""
        clock = TurnClock()
        factory = make_factory(clock)
        flooder, flooded = connect(factory)
        other, transport = connect(factory)
        flooder.dataReceived(b"x\n" * 80_000)
        assert flooded.value().count(b"\n") == 256
        assert flooded.producerState == "paused"
        other.dataReceived(b"list\n")
        assert transport.value().startswith(b"ok")
        clock.turn()
        assert flooded.value().count(b"\n") == 512
        clock.advance(0)
        assert flooded.value().count(b"error unknown-verb") == 80_000
        assert flooded.producerState == "producing"
        assert clock.getDelayedCalls() == []

    def test_a_slice_ends_by_time(self):
        """Messages that take long end it after 5 ms, wherever its bytes end."""
        clock = TurnClock()
        peer, transport = connect(make_factory(clock))
        peer.request_received = spends(clock, 0.002)
        peer.dataReceived(b"list\n" * 100)
        for served in (3, 6, 9):
            assert transport.value().count(b"ok") == served
            clock.turn()

    def test_a_newcomer_among_many(self):
        """300 peers with much to do arrive together: a short message is served in the next turn of the reactor."""
        clock = TurnClock()
        factory = make_factory(clock)
        for _ in range(300):
            peer, _ = connect(factory)
            peer.request_received = spends(clock, 0.001)
            peer.dataReceived(b"list\n" * 2000)
        newcomer, transport = connect(factory)
        newcomer.dataReceived(b"list\n")
        clock.turn()
        assert transport.value() == LISTED

    def test_input_that_waits_for_its_turn_is_bounded(self):
        """Others have used up the time of this turn: a peer is not read without end meanwhile."""
        clock = TurnClock()
        factory = make_factory(clock)
        factory.fair_share.request_turn(Worker("a", 1, [], clock, seconds=1.0))
        peer, transport = connect(factory)
        peer.dataReceived(b"x" * 60_000)
        assert transport.producerState == "producing"
        peer.dataReceived(b"\nlist" * 2000)
        assert transport.producerState == "paused"
        clock.advance(0)
        assert (len(peer.asked), transport.producerState) == (1999, "producing")

    def test_blank_lines_count(self):
        clock = Clock()
        peer, transport = connect(make_factory(clock))
        peer.dataReceived(b"list" + b"\n" * 1000)
        assert transport.producerState == "paused"
        clock.advance(0)
        assert transport.producerState == "producing"


class TestDoesNotRead:
    """A peer that asks and does not read, over Twisted's own buffers."""

    def setup_method(self):
        self.clock = Clock()
        self.factory = make_factory(self.clock)

    def held(self, transport):
        return len(transport.dataBuffer) - transport.offset + transport._tempDataLen

    def test_its_requests_wait(self):
        """Once 64 KiB wait to be read the peer is not served, nor read, any more."""
        peer, transport = connect_descriptor(self.factory, room=0)
        peer.dataReceived(b"show big\n" * 100)
        transport.turn(20)
        assert len(peer.asked) == 1
        assert not transport.reading
        assert self.held(transport) <= 2 * CHUNK_BYTES

    def test_it_is_cut(self):
        """After 10 seconds without taking anything of a full buffer."""
        peer, transport = connect_descriptor(self.factory, room=0)
        peer.dataReceived(b"show big\n" * 100)
        transport.turn()
        self.clock.advance(PATIENCE_SECONDS - 0.1)
        assert not transport.aborted
        self.clock.advance(0.1)
        assert transport.aborted
        assert (peer.left, self.factory.peers) == (1, set())
        assert self.clock.getDelayedCalls() == []

    def test_who_reads_gets_everything(self):
        peer, transport = connect_descriptor(self.factory, room=0)
        peer.dataReceived(b"show big\n" * 10)
        for _ in range(200):
            transport.room = 10_000
            transport.turn()
            self.clock.advance(0.1)
        assert transport.taken == (b"ok 100 lines\n" + (b"x" * 999 + b"\n") * 100) * 10
        assert transport.reading
        assert self.clock.getDelayedCalls() == []

    def test_news_to_who_does_not_read(self):
        """Notifications may wait up to the limit; then the connection is cut."""
        peer, transport = connect_descriptor(self.factory, room=0)
        peer.dataReceived(b"list\n")
        sent = 0
        while not transport.aborted:
            peer.notify(Notification("x" * 999, {}))
            sent += 1000
        assert sent < MAX_BYTES + 2 * CHUNK_BYTES + 2000
        assert sent > MAX_BYTES

    def test_the_last_answer_of_who_does_not_read(self):
        peer, transport = connect_descriptor(self.factory, room=0)
        peer.dataReceived(b"quit\n")
        transport.turn(3)
        assert not transport.aborted
        self.clock.advance(PATIENCE_SECONDS)
        assert transport.aborted

    def test_closing_with_a_full_buffer(self):
        """Everything said before is sent first, however slow the peer reads."""
        peer, transport = connect_descriptor(self.factory, room=0)
        peer.dataReceived(b"show big\n")
        peer.close()
        assert peer.left == 1
        for _ in range(100):
            transport.room = 5000
            transport.turn()
            self.clock.advance(0.1)
        assert len(transport.taken) == 100_013
        assert transport.disconnected
        assert not transport.aborted
        assert self.clock.getDelayedCalls() == []

    def test_the_end_of_input_with_a_full_buffer(self):
        peer, transport = connect_descriptor(self.factory, room=0)
        peer.dataReceived(b"show big\n" * 3)
        peer.readConnectionLost()
        assert not transport.disconnecting
        transport.room = 10**7
        transport.turn(30)
        assert len(transport.taken) == 3 * 100_013
        assert transport.disconnected
        assert self.clock.getDelayedCalls() == []


class TestLinger:
    """A peer that is disconnected while it still sends gets the reason."""

    def setup_method(self):
        self.clock = Clock()
        self.peer, self.transport = connect_descriptor(make_factory(self.clock), room=10**6)
        self.peer.dataReceived(b"x" * 70_000)
        self.transport.turn(3)

    def test_the_sending_side_is_closed_first(self):
        assert self.transport.taken == b"error too-long a line is at most 65536 bytes\n"
        assert self.transport.half_closed
        assert self.transport.reading
        self.peer.dataReceived(b"\nlist\n")
        assert (self.peer.asked, self.transport.disconnected) == ([], 0)

    def test_the_peer_closes(self):
        self.peer.readConnectionLost()
        self.transport.turn(3)
        assert self.transport.disconnected
        assert self.clock.getDelayedCalls() == []

    def test_reading_was_stopped(self):
        """It had sent more than one turn can serve. A transport without a half-close, as TLS, is closed at once."""
        peer, transport = connect(make_factory(self.clock))
        peer.dataReceived(b"list\n" * 300)
        peer.dataReceived(b"x" * 70_000)
        assert transport.producerState == "paused"
        self.clock.advance(0)
        assert transport.value().endswith(b"error too-long a line is at most 65536 bytes\n")
        assert transport.disconnecting

    def test_it_does_not_last(self):
        self.clock.advance(LINGER_SECONDS)
        self.transport.turn(3)
        assert self.transport.disconnected
        assert self.clock.getDelayedCalls() == []


class TestAnswer:
    """Large answers."""

    def test_an_answer_larger_than_the_bound(self):
        clock = Clock()
        peer, transport = connect_descriptor(make_factory(clock), room=0)
        peer.request_received = lambda request: Reply(lines=["y" * 9999] * 200)
        peer.dataReceived(b"list\n")
        transport.room = 10**7
        transport.turn(100)
        assert len(transport.taken) == 2_000_000 + len("ok 200 lines\n")

    def test_the_end_needs_no_look_whether_it_can_write(self):
        """All is with the peer: the connection is closed in the next turn of the reactor."""
        clock = Clock()
        peer, transport = connect_descriptor(make_factory(clock), room=100)
        peer.dataReceived(b"quit\n")
        assert transport.taken == b"ok\n" and not transport.writing and not transport.disconnected
        clock.advance(0)
        assert transport.disconnected and clock.getDelayedCalls() == []

    def test_a_short_one_leaves_at_once(self):
        """It is with the peer when its turn is over, and nothing is left to do."""
        peer, transport = connect_descriptor(make_factory(Clock()), room=100)
        peer.dataReceived(b"list\n")
        assert transport.taken == LISTED
        assert not transport.writing

    def test_in_order_wherever_the_peer_stops(self):
        """What it does not take immediately comes before later messages."""
        for room in range(2 * len(LISTED) + 1):
            peer, transport = connect_descriptor(make_factory(Clock()), room)
            peer.dataReceived(b"list\n")
            peer.dataReceived(b"list\n")
            assert transport.taken == (2 * LISTED)[:room]
            transport.room = 1000
            peer.dataReceived(b"list\n")
            transport.turn()
            assert transport.taken == 3 * LISTED

    def test_a_broken_connection(self):
        peer, transport = connect_descriptor(make_factory(Clock()), room=0)
        transport.writeSomeData = lambda data: main.CONNECTION_LOST
        peer.dataReceived(b"list\n")
        assert peer.left == 0
        assert transport.writing
        assert transport.doWrite() is main.CONNECTION_LOST


class TestFactory:
    """All peers of a port."""

    def test_a_thousand_that_say_nothing(self):
        clock = Clock()
        factory = make_factory(clock)
        silent = [connect(factory) for _ in range(1000)]
        assert clock.getDelayedCalls() == []
        peer, transport = connect(factory)
        peer.dataReceived(b"list\n")
        assert transport.value().startswith(b"ok")
        clock.advance(3600)
        assert not any(transport.disconnecting for _, transport in silent)

    def test_quiet(self):
        assert not make_factory().noisy
