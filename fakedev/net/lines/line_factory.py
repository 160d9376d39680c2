"""All peers of a line port."""

from __future__ import annotations

from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import Factory, Protocol

from fakedev.net.lines.fair_share import Turns
from fakedev.net.lines.server import LinePeer
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Way
from fakedev.wire.grammar import Grammar
from fakedev.wire.replies import encode_error

MAX_CONNECTIONS = 10_000
MESSAGE_SECONDS = 10.0


class LinePeerFactory(Factory):
    """Serves a port: makes its peers, and knows those that are connected.

    A port sets ``protocol`` to its own LinePeer, and gives itself what its peers need.

    :param max_connections: a connection more is told ``error busy`` and closed.
    :param message_seconds: for a message that was begun to become complete.
    :param idle_answer_seconds: a peer whose first message was begun and that sends nothing for so long is answered
        as a bare one and closed; None for no such rule.
    :param verbose: log every message, of both sides.
    :param turns: shares the reactor; several ports may have one.
    """

    noisy = False
    protocol: type[LinePeer] = LinePeer

    def __init__(
        self,
        grammar: Grammar,
        clock: IReactorTime,
        *,
        max_connections: int = MAX_CONNECTIONS,
        message_seconds: float = MESSAGE_SECONDS,
        idle_answer_seconds: float | None = None,
        verbose: bool = False,
        turns: Turns | None = None,
    ) -> None:
        self.grammar = grammar
        self.clock = clock
        self.max_connections = max_connections
        self.message_seconds = message_seconds
        self.idle_answer_seconds = idle_answer_seconds
        self.verbose = verbose
        self.turns = turns or Turns(clock)
        self.peers: set[LinePeer] = set()
        #: Connections that were taken, and those that were told ``error busy``.
        self.accepted = 0
        self.refused = 0

    def buildProtocol(self, addr: IAddress | None) -> Protocol:
        """Twisted asks for the protocol of a new connection."""
        if len(self.peers) >= self.max_connections:
            self.refused += 1
            return _Refusal(self.max_connections)
        self.accepted += 1
        peer = self.protocol()
        peer.factory = self
        return peer


class _Refusal(Protocol):
    """Tells a peer that there are too many, before it says anything, and closes."""

    def __init__(self, most: int) -> None:
        self._most = most

    def connectionMade(self) -> None:
        error = ProtocolError("busy", f"{self._most} connections are open, and no more are taken", fatal=True)
        self.transport.write(encode_error(error, Way.WORDS))
        self.transport.loseConnection()
