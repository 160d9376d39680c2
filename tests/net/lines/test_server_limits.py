"""All peers of a line port: how many there may be."""

from __future__ import annotations

from twisted.internet.task import Clock

from tests.support.line_peers import connect, make_factory


class TestFactory:
    """All peers of a port."""

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
