"""The factory of a line port: makes connections, and limits how many there are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.interfaces import IAddress, IReactorTime
from twisted.internet.protocol import Factory, Protocol

from fakedev.net.lines.connection import LineConnection
from fakedev.net.lines.fair_share import FairShare, TurnObserver
from fakedev.net.lines.peer import Peer, Session
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Dialect
from fakedev.wire.grammar import Grammar
from fakedev.wire.replies import encode_error

MAX_CONNECTIONS: Final = 10_000
MESSAGE_SECONDS: Final = 10.0


class LineServerFactory(Factory):
    """Serves a line port.

    :param make_session: makes the port's behaviour for a new connection.
    :param max_connections: a further connection gets ``error busy`` and is closed.
    :param message_seconds: from the first byte of a message to its last one.
    :param idle_answer_seconds: a peer that stops sending for this long inside its first message gets the answer of a
        bare peer and is closed; None for no such rule.
    :param verbose: log every message, of both sides.
    :param fair_share: shares the reactor; several ports may have one.
    :param turn_observer: called after each turn of a connection, and when a connection has ended.
    :ivar accepted: how many connections were taken.
    :ivar refused: how many connections got ``error busy``.
    """

    noisy = False

    def __init__(
        self,
        grammar: Grammar,
        make_session: Callable[[Peer], Session],
        clock: IReactorTime,
        *,
        max_connections: int = MAX_CONNECTIONS,
        message_seconds: float = MESSAGE_SECONDS,
        idle_answer_seconds: float | None = None,
        verbose: bool = False,
        fair_share: FairShare | None = None,
        turn_observer: TurnObserver | None = None,
    ) -> None:
        self.grammar = grammar
        self._make_session = make_session
        self.clock = clock
        self.max_connections = max_connections
        self.message_seconds = message_seconds
        self.idle_answer_seconds = idle_answer_seconds
        self.verbose = verbose
        self.fair_share = fair_share or FairShare(clock)
        self.turn_observer = turn_observer
        self.peers: set[LineConnection] = set()
        self.accepted = 0
        self.refused = 0

    def buildProtocol(self, addr: IAddress | None) -> Protocol:
        if len(self.peers) >= self.max_connections:
            self.refused += 1
            return _Refusal(self.max_connections)
        self.accepted += 1
        connection = LineConnection(self, self._make_session)
        connection.factory = self
        return connection


class _Refusal(Protocol):
    """Sends ``error busy`` before the peer sends anything, and closes."""

    def __init__(self, max_connections: int) -> None:
        self._max_connections = max_connections

    def connectionMade(self) -> None:
        assert self.transport is not None
        text = f"{self._max_connections} connections are open, no more are accepted"
        self.transport.write(encode_error(ProtocolError("busy", text, fatal=True), Dialect.WORDS))
        self.transport.loseConnection()
