"""All peers of a line port: how many there may be."""

from __future__ import annotations

from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from tests.support.line_peers import connect, make_factory


class TestFactory:
    """All peers of a port."""

    def test_one_too_many(self):
        """It receives busy in words and is disconnected; the others are not disturbed."""
        factory = make_factory(max_connections=2)
        (first, transport), _ = connect(factory), connect(factory)
        _, refused = connect(factory)
        assert refused.value() == b"error busy 2 connections are open, no more are accepted\n"
        assert refused.disconnecting
        assert (len(factory.peers), factory.refused) == (2, 1)
        first.dataReceived(b"list\n")
        assert transport.value().startswith(b"ok")
        first.connectionLost(Failure(ConnectionDone()))
        assert not connect(factory)[1].disconnecting

    def test_a_thousand_that_say_nothing(self):
        """They stay, cost no timer, and no other peer waits for them."""
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
        """Starting and stopping a port is not Twisted's to log."""
        assert not make_factory().noisy
