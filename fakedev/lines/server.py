"""The factory of a line port: its addresses, new connections, and TLS handshakes that do not end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from twisted.internet.interfaces import IAddress, IProtocol, IReactorTime
from twisted.internet.protocol import Factory, Protocol

from fakedev.lines.framing import WORDS
from fakedev.lines.grammar import ProtocolError
from fakedev.lines.json_lines import encode_error
from fakedev.lines.port_limits import PortLimits, first_to_leave
from fakedev.lines.tokens import TokenGate
from fakedev.runtime.clock import Timeouts
from fakedev.runtime.listening import MAPPED

if TYPE_CHECKING:
    from fakedev.runtime.tls_transport import TlsTransport, WrapTls

#: Seconds from the connection to the end of the handshake.
HANDSHAKE_SECONDS: Final = 10.0
#: Handshakes at once; for one more the oldest of the host with the most is ended. As many peers may wait for theirs.
MAX_HANDSHAKES: Final = 1024
_PLAIN: Final = "this address speaks TLS, and no plain text: connect with TLS"


class Handshakes:
    """The handshakes of one address that have not ended.

    :param closed: counts the connections that this side has closed, by reason: ``handshake`` (it took too long, made
        room for another one, or failed: a wrong certificate) and ``plain`` (the peer does not speak TLS).
    :param seconds: from the connection to the end of the handshake.
    """

    def __init__(self, clock: IReactorTime, closed: Counter[str], seconds: float = HANDSHAKE_SECONDS) -> None:
        self._closed = closed
        self._hosts: dict[TlsTransport, str] = {}
        self._shaking: Timeouts[TlsTransport] = Timeouts(clock, seconds, self._end)

    def begun(self, peer: TlsTransport, host: str) -> None:
        if len(self._shaking) >= MAX_HANDSHAKES:
            (oldest,) = first_to_leave(self._hosts, Counter([*self._hosts.values(), host]), 1)
            self.agreed(oldest)
            self._end(oldest)
        self._shaking.start(peer)
        self._hosts[peer] = host

    def agreed(self, peer: TlsTransport) -> bool:
        self._hosts.pop(peer, None)
        return self._shaking.stop(peer)

    def refused(self, peer: TlsTransport) -> None:
        """The peer does not speak TLS."""
        self.agreed(peer)
        self._closed["plain"] += 1

    def lost(self, peer: TlsTransport) -> None:
        """The connection is closed before the handshake was done: by the peer, or because it cannot be done."""
        if self.agreed(peer):
            self._closed["handshake"] += 1

    def _end(self, peer: TlsTransport) -> None:
        self._closed["handshake"] += 1
        self._hosts.pop(peer, None)
        peer.abortConnection()


def _plain_answer(begin: bytes) -> bytes:
    """The answer to a peer that does not speak TLS, in words."""
    return encode_error(ProtocolError("denied", _PLAIN, fatal=True), WORDS)


class _Address(Factory):
    """An address of a line port, with its tokens and, if it is used, its TLS.

    :param closed: see :class:`Handshakes`.
    :ivar gate: the tokens of its peers.
    """

    noisy = False
    port: LineServerFactory

    def __init__(self, clock: IReactorTime, closed: Counter[str], tokens: Iterable[str]) -> None:
        self.clock = clock
        self.gate = TokenGate(clock, tokens)
        self._handshakes = Handshakes(clock, closed)
        self._wrap: WrapTls | None = None

    def use_tls(self, context: Any) -> None:
        """Speak TLS with new peers.

        :param context: of :func:`~fakedev.runtime.tls.tls_context`; None: plain text.
        """
        self._wrap = None
        if context is not None:
            from fakedev.runtime.tls_transport import tls_wrapper  # noqa: PLC0415 - needs pyOpenSSL

            self._wrap = tls_wrapper(context, self, self.clock, _plain_answer, self._handshakes)

    @property
    def is_tls(self) -> bool:
        return self._wrap is not None

    def buildProtocol(self, addr: IAddress | None) -> IProtocol:  # type: ignore[override]  # also one of TLS
        """Make the connection of a new peer, or refuse it."""
        connection = self.port.connection(self.gate, str(getattr(addr, "host", "")).removeprefix(MAPPED))
        return connection if self._wrap is None else self._wrap(connection)

    def make_room(self, host: str = "") -> bool:
        """See :meth:`PortLimits.make_room`."""
        return self.port.make_room(host)


class LineServerFactory(PortLimits, _Address):
    """Serves a line port.

    :cvar protocol: the protocol of the port.
    :param tokens: of peers; none: every peer is admitted.
    :param limits: see :class:`~fakedev.lines.port_limits.PortLimits`.
    :ivar accepted: how many connections were taken.
    """

    protocol: Any

    def __init__(self, clock: IReactorTime, *, tokens: Iterable[str] = (), **limits: Any) -> None:
        PortLimits.__init__(self, clock, **limits)
        _Address.__init__(self, clock, self.closed, tokens)
        self.accepted = 0

    @property
    def port(self) -> LineServerFactory:  # type: ignore[override]
        """Itself: a port of one address."""
        return self

    def connection(self, gate: TokenGate, host: str) -> Protocol:
        """The connection of a new peer, before TLS.

        :param gate: of the peer's address.
        :param host: of the peer; empty on a UNIX socket.
        """
        if len(self.peers) >= self.max_connections and not self.make_room(host):
            self.closed["full"] += 1
            return _Refusal(self.max_connections)
        self.accepted += 1
        connection: Protocol = self.protocol(self, gate)
        return connection


class LineAddress(_Address):
    """One of several addresses of a line port."""

    def __init__(self, port: LineServerFactory, tokens: Iterable[str] = ()) -> None:
        super().__init__(port.clock, port.closed, tokens)
        self.port = port


class _Refusal(Protocol):
    """Sends ``error busy`` before the peer sends anything, and closes."""

    def __init__(self, max_connections: int) -> None:
        self._max_connections = max_connections

    def connectionMade(self) -> None:
        assert self.transport is not None
        text = f"{self._max_connections} connections are open and busy, so this one is refused"
        self.transport.write(encode_error(ProtocolError("busy", text, fatal=True), WORDS))
        self.transport.loseConnection()
