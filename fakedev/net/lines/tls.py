"""TLS of a line port: what a peer gets that speaks plain text, and limits of handshakes that do not end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Protocol

from twisted.internet.interfaces import IProtocol, IProtocolFactory, IReactorTime

from fakedev.net.system.timeouts import Timeouts
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Dialect
from fakedev.wire.replies import encode_error

if TYPE_CHECKING:
    from fakedev.net.system.tls_transport import WrapTls

#: Seconds from the connection to the end of the handshake.
HANDSHAKE_SECONDS: Final = 10.0
#: Handshakes at once; for one more the oldest is ended. As many peers may wait for their connection.
MAX_HANDSHAKES: Final = 1024
_PLAIN: Final = "this address speaks TLS, and no plain text: connect with TLS"


class HandshakingPeer(Protocol):
    """What is needed of a connection; see :class:`~fakedev.net.system.tls_transport.TlsTransport`."""

    def abortConnection(self) -> None: ...


class Handshakes:
    """The handshakes of one address that have not ended.

    :param closed: counts the connections that this side has closed, by reason: ``handshake`` (it took too long, made
        room for another one, or failed: a wrong certificate) and ``plain`` (the peer does not speak TLS).
    """

    def __init__(self, clock: IReactorTime, closed: Counter[str]) -> None:
        self._closed = closed
        self._shaking: Timeouts[HandshakingPeer] = Timeouts(clock, HANDSHAKE_SECONDS, self._end)

    def begun(self, peer: HandshakingPeer) -> None:
        """A peer has connected."""
        if len(self._shaking) >= MAX_HANDSHAKES:
            oldest = next(iter(self._shaking))
            self._shaking.stop(oldest)
            self._end(oldest)
        self._shaking.start(peer)

    def agreed(self, peer: HandshakingPeer) -> None:
        """The handshake is done."""
        self._shaking.stop(peer)

    def refused(self, peer: HandshakingPeer) -> None:
        """The peer does not speak TLS."""
        self._shaking.stop(peer)
        self._closed["plain"] += 1

    def lost(self, peer: HandshakingPeer) -> None:
        """The connection is closed before the handshake was done: by the peer, or because it cannot be done."""
        if self._shaking.stop(peer):
            self._closed["handshake"] += 1

    def _end(self, peer: HandshakingPeer) -> None:
        self._closed["handshake"] += 1
        peer.abortConnection()


class LineTls:
    """Puts TLS around the connections of an address, if it has any.

    :param closed: see :class:`Handshakes`.
    """

    def __init__(self, factory: IProtocolFactory, clock: IReactorTime, closed: Counter[str]) -> None:
        self._factory = factory
        self._clock = clock
        self._handshakes = Handshakes(clock, closed)
        self._wrap: WrapTls | None = None

    def use(self, context: Any) -> None:
        """Speak TLS with new peers.

        :param context: of :func:`~fakedev.net.system.tls_context.tls_context`; None: plain text.
        """
        if context is None:
            self._wrap = None
            return
        from fakedev.net.system.tls_transport import tls_wrapper  # noqa: PLC0415 - needs pyOpenSSL

        self._wrap = tls_wrapper(context, self._factory, self._clock, _plain_answer, self._handshakes)

    @property
    def is_used(self) -> bool:
        """Whether new peers must speak TLS."""
        return self._wrap is not None

    def wrap(self, protocol: IProtocol) -> IProtocol:
        """The protocol of a new peer."""
        return protocol if self._wrap is None else self._wrap(protocol)


def _plain_answer(begin: bytes) -> bytes:
    """The answer to a peer that does not speak TLS, in words."""
    return encode_error(ProtocolError("denied", _PLAIN, fatal=True), Dialect.WORDS)
