"""What a line port does when a peer ends its input, or is gone."""

from __future__ import annotations

from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.python.failure import Failure

from fakedev.lines.json_lines import Notification, Reply
from tests.support.wire.line_peers import BARE, connect, make_factory


class TestEndOfInput:
    """`nc -N`, `nc`, and peers that are gone."""

    def setup_method(self):
        self.factory = make_factory()
        self.peer, self.transport = connect(self.factory)

    def test_everything_is_answered_then_closed(self):
        """However many lines there were, and the last one needs no newline."""
        self.peer.dataReceived(b"stop x\n" * 1000 + b"list")
        self.peer.readConnectionLost()
        assert not self.transport.disconnecting
        while self.factory.clock.getDelayedCalls() and not self.transport.disconnecting:
            self.factory.clock.advance(0)
        assert self.transport.value().count(b"\n") == 1003
        assert self.transport.value().endswith(b"two\n")
        assert self.transport.disconnecting
        assert self.peer.left == 1

    def test_without_the_end_the_connection_stays(self):
        self.peer.dataReceived(b"list\n")
        self.factory.clock.advance(3600)
        assert not self.transport.disconnecting
        assert self.peer.left == 0

    def test_an_answer_that_waits_is_waited_for(self):
        self.peer.dataReceived(b"advance 1s\nlist")
        self.peer.readConnectionLost()
        assert not self.transport.disconnecting
        self.peer.reply(self.peer.waiting[0], Reply("1 s"))
        assert self.transport.value() == b"ok 1 s\nok 2 lines\none\ntwo\n"
        assert self.transport.disconnecting

    def test_while_something_works_the_end_means_left(self):
        self.peer.working = True
        self.peer.dataReceived(b"run x devices=a profile=1\nadvance 1s\n")
        self.peer.readConnectionLost()
        assert (self.transport.value(), self.transport.disconnecting) == (b"ok run\n", True)
        assert self.peer.left == 1
        self.peer.reply(self.peer.waiting[0], Reply())
        assert self.transport.value() == b"ok run\n"

    def test_a_bare_peer_that_leaves(self):
        """Its half object is answered with 1; after a whole one it counts as gone."""
        self.peer.dataReceived(BARE[:20])
        self.peer.readConnectionLost()
        assert (self.transport.value(), self.transport.disconnecting) == (b"1", True)
        peer, transport = connect(self.factory)
        peer.dataReceived(BARE)
        peer.working = True
        peer.readConnectionLost()
        assert (transport.value(), transport.disconnecting, peer.left) == (b"", True, 1)

    def test_a_lost_connection(self):
        self.peer.dataReceived(b"list\nli")
        self.peer.connectionLost(Failure(ConnectionLost()))
        assert (self.peer.left, self.factory.peers) == (1, set())
        self.peer.notify(Notification("x", {}))
        self.peer.close()
        assert self.peer.left == 1
        assert self.factory.clock.getDelayedCalls() == []

    def test_what_was_sent_before_leaving_is_done(self):
        """All input of a peer that sends much, ends its input and disconnects at once is read."""
        self.peer.dataReceived(b"stop x\n" * 1000)
        self.peer.readConnectionLost()
        self.peer.connectionLost(Failure(ConnectionDone()))
        assert self.peer.left == 0
        self.factory.clock.pump([0] * 10)
        assert (len(self.peer.asked), self.peer.left) == (1000, 1)

    def test_a_broken_connection_is_not_heard(self):
        self.peer.dataReceived(b"stop x\n" * 1000)
        self.peer.connectionLost(Failure(ConnectionLost()))
        self.factory.clock.pump([0] * 10)
        assert (len(self.peer.asked), self.peer.left) == (256, 1)
