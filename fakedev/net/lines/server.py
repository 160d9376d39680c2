"""The factory of a line port: makes connections, limits how many there are, and closes silent ones for new ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from twisted.internet.interfaces import IAddress, IProtocol, IReactorTime
from twisted.internet.protocol import Factory, Protocol

from fakedev.net.lines.connection import LineConnection
from fakedev.net.lines.fair_share import FairShare, TurnObserver
from fakedev.net.lines.message_timer import MessageTimer
from fakedev.net.lines.outbox import OutboxTimer
from fakedev.net.lines.peer import Peer, Session
from fakedev.net.lines.silence import SilentPeers
from fakedev.net.lines.tls import LineTls
from fakedev.net.lines.tokens import TokenGate
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Dialect
from fakedev.wire.grammar import Grammar
from fakedev.wire.replies import encode_error

MAX_CONNECTIONS: Final = 10_000
MESSAGE_SECONDS: Final = 10.0


class _WithTls(Factory):
    """Makes connections with TLS, or without."""

    noisy = False
    _tls: LineTls

    def use_tls(self, context: Any) -> None:
        """See :meth:`LineTls.use`."""
        self._tls.use(context)

    @property
    def is_tls(self) -> bool:
        """Whether new connections speak TLS."""
        return self._tls.is_used


class LineServerFactory(_WithTls):
    """Serves a line port.

    :param make_session: makes the port's behaviour for a new connection.
    :param max_connections: beyond this number the longest silent peer without work gets ``error busy`` and is closed;
        if there is none, the new one.
    :param message_seconds: from the first byte of a message to its last one.
    :param idle_answer_seconds: a peer that sends nothing for this long before its first message is complete gets
        the answer of a bare peer and is closed; None for no such rule.
    :param verbose: log every message, of both sides.
    :param fair_share: shares the reactor; several ports may have one.
    :param turn_observer: called after each turn of a connection, and when a connection has ended.
    :param closed: counts the connections that this side has closed, by reason: the code of the last error, ``full`` (a
        new one had no room), ``silent`` (made room for another one), ``unread`` (did not read its answers),
        ``handshake`` and ``plain`` (see :class:`~fakedev.net.lines.tls.Handshakes`).
    :ivar gate: the tokens of peers that connect by this factory.
    :ivar accepted: how many connections were taken.
    """

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
        closed: Counter[str] | None = None,
        tokens: Iterable[str] = (),
    ) -> None:
        self.grammar = grammar
        self._make_session = make_session
        self.clock = clock
        self.max_connections = max_connections
        self.idle_answer_seconds = idle_answer_seconds
        self.message_timer = MessageTimer(clock, message_seconds, idle_answer_seconds)
        self.outbox_timer = OutboxTimer(clock)
        self.verbose = verbose
        self.fair_share = fair_share or FairShare(clock)
        self.turn_observer = turn_observer
        self.gate = TokenGate(clock, tokens)
        self.peers: set[LineConnection] = set()
        self.silent_peers = SilentPeers(clock)
        self.accepted = 0
        self.closed: Counter[str] = Counter() if closed is None else closed
        self._tls = LineTls(self, clock, self.closed)

    def buildProtocol(self, addr: IAddress | None) -> IProtocol:  # type: ignore[override]  # also one of TLS
        """Make the connection of a new peer."""
        return self._tls.wrap(self.connection())

    def connection(self, gate: TokenGate | None = None) -> Protocol:
        """The connection of a new peer, before TLS.

        :param gate: of the peer's address, if that is not the port's only one.
        """
        if len(self.peers) >= self.max_connections and not self.make_room():
            self.closed["full"] += 1
            return _Refusal(self.max_connections)
        self.accepted += 1
        connection = LineConnection(self, self._make_session, gate or self.gate)
        connection.factory = self
        return connection

    def make_room(self) -> bool:
        """Close the longest silent peer without work; return whether there was one."""
        silent = self.silent_peers.find()
        if silent is None:
            return False
        text = f"{len(self.peers)} connections are open, and this one was silent for the longest time"
        silent.dismiss(ProtocolError("busy", text, fatal=True), "silent")
        return True


class LineAddress(_WithTls):
    """One of several addresses of a line port, with its tokens and its TLS."""

    def __init__(self, port: LineServerFactory, tokens: Iterable[str] = ()) -> None:
        self.port = port
        self.gate = TokenGate(port.clock, tokens)
        self._tls = LineTls(self, port.clock, port.closed)

    def buildProtocol(self, addr: IAddress | None) -> IProtocol:  # type: ignore[override]  # also one of TLS
        return self._tls.wrap(self.port.connection(self.gate))

    def make_room(self) -> bool:
        """See :meth:`LineServerFactory.make_room`."""
        return self.port.make_room()


class _Refusal(Protocol):
    """Sends ``error busy`` before the peer sends anything, and closes."""

    def __init__(self, max_connections: int) -> None:
        self._max_connections = max_connections

    def connectionMade(self) -> None:
        assert self.transport is not None
        text = f"{self._max_connections} connections are open and at work, no more are accepted"
        self.transport.write(encode_error(ProtocolError("busy", text, fatal=True), Dialect.WORDS))
        self.transport.loseConnection()
