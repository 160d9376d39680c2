"""TLS around the protocols of a server. It needs pyOpenSSL: import it only where TLS is used."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from twisted.internet.interfaces import (
    IHalfCloseableDescriptor,
    IOpenSSLServerConnectionCreator,
    IProtocol,
    IProtocolFactory,
    IReactorTime,
)
from twisted.internet.protocol import connectionDone
from twisted.protocols.tls import BufferingTLSTransport, TLSMemoryBIOFactory
from twisted.python.failure import Failure
from zope.interface import implementer, noLongerProvides

#: How a handshake of TLS begins (RFC 8446, 5.1).
_HANDSHAKE: Final = b"\x16"

#: Puts TLS around the protocol of a new connection.
WrapTls = Callable[[IProtocol], IProtocol]
#: The answer to first bytes that are not TLS, before the connection is closed; None: wait for more of them.
PlainAnswer = Callable[[bytes], bytes | None]


class HandshakeWatch(Protocol):
    """Observes the handshakes of a port. It may end one by ``abortConnection``."""

    def begun(self, peer: TlsTransport, host: str) -> None: ...
    def agreed(self, peer: TlsTransport) -> object: ...
    def refused(self, peer: TlsTransport) -> None: ...
    def lost(self, peer: TlsTransport) -> None: ...


class TlsTransport(BufferingTLSTransport):
    """The server's side of one connection. A peer that does not speak TLS gets an answer, and is closed."""

    def __init__(
        self, factory: TLSMemoryBIOFactory, protocol: IProtocol, plain_answer: PlainAnswer, watch: HandshakeWatch | None
    ) -> None:
        super().__init__(factory, protocol)
        self._plain_answer = plain_answer
        self._watch = watch
        #: The first bytes, until it is known what they are.
        self._begin: bytes | None = b""
        self._is_refused = False

    def makeConnection(self, transport: Any) -> None:
        """Begin. TLS has no half-closed connections, also where the transport has."""
        if self._watch is not None:
            self._watch.begun(self, str(getattr(transport.getPeer(), "host", "")))
        super().makeConnection(transport)
        if IHalfCloseableDescriptor.providedBy(self):
            noLongerProvides(self, IHalfCloseableDescriptor)

    def dataReceived(self, data: bytes) -> None:
        """Pass on what is TLS."""
        if self._is_refused:
            return
        if self._begin is not None:
            self._begin += data
            if not self._begin.startswith(_HANDSHAKE):
                answer = self._plain_answer(self._begin)
                if answer is not None:
                    self._refuse(answer)
                return
            data, self._begin = self._begin, None
        super().dataReceived(data)
        if self._watch is not None and self._is_agreed():
            self._watch.agreed(self)
            self._watch = None

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """End, perhaps before the handshake."""
        watch, self._watch = self._watch, None
        if watch is not None:
            (watch.agreed if self._is_agreed() else watch.lost)(self)
        super().connectionLost(reason)

    def _refuse(self, answer: bytes) -> None:
        self._is_refused = True
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.refused(self)
        assert self.transport is not None
        self.transport.write(answer)
        self.transport.loseConnection()

    def _is_agreed(self) -> bool:
        """Whether the handshake is done, with what is asked of the peer's certificate."""
        handle: Any = self.getHandle()
        return handle is not None and handle.get_peer_finished() is not None


def tls_wrapper(
    context: Any,
    factory: IProtocolFactory,
    clock: IReactorTime,
    plain_answer: PlainAnswer,
    watch: HandshakeWatch | None = None,
) -> WrapTls:
    """Put TLS around the protocols of a factory.

    :param context: of :func:`~fakedev.runtime.tls.tls_context`.
    """
    made = TLSMemoryBIOFactory(_Connections(context), False, factory, clock)
    return partial(_wrapped, made, plain_answer, watch)


def _wrapped(
    factory: TLSMemoryBIOFactory, plain_answer: PlainAnswer, watch: HandshakeWatch | None, protocol: IProtocol
) -> IProtocol:
    return TlsTransport(factory, protocol, plain_answer, watch)


@implementer(IOpenSSLServerConnectionCreator)
class _Connections:
    """Makes the TLS connections of one context."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def serverConnectionForTLS(self, protocol: object) -> Any:
        from OpenSSL import SSL  # noqa: PLC0415 - an optional package

        return SSL.Connection(self._context, None)
