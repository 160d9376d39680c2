"""Clients of TLS in memory: Python's own ssl is the client, and Twisted's TLS the server."""

from __future__ import annotations

import ssl
from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from tests.support.wire.certificates import Authority
from tests.support.wire.http_wire import SocketLike

AUTHORITY = Authority(server_name="localhost")
CERTIFICATE, KEY = AUTHORITY.sign("server", "localhost")


class Client:
    """A client that speaks TLS with a server in memory.

    :param served: its factory.
    :param own: files of its certificate and key.
    :param chop: sends its bytes one by one.
    """

    def __init__(self, served: Any, clock: Clock, own: tuple[str, ...] = (), chop: bool = False,
                 most: ssl.TLSVersion = ssl.TLSVersion.MAXIMUM_SUPPORTED) -> None:  # fmt: skip
        context = ssl.create_default_context(cadata=AUTHORITY.pem)
        context.set_alpn_protocols(["h2", "http/1.1"])
        context.maximum_version = most
        if own:
            context.load_cert_chain(*own)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")
        self._clock, self._chop = clock, chop
        self.wire = SocketLike()
        protocol = served.buildProtocol(None)
        assert protocol is not None
        self._protocol = protocol
        protocol.makeConnection(self.wire)
        self._seen = 0

    def ask(self, text: bytes) -> bytes:
        """Send something; all that comes back."""
        self._do(self.tls.do_handshake)
        self._do(lambda: self.tls.write(text))
        found = b""
        while True:
            try:
                read = self._do(lambda: self.tls.read(65536))
            except ssl.SSLWantReadError:
                return found
            if not read:
                return found  # the server has closed, as TLS has it
            found += read

    def close(self) -> None:
        """Close the connection, which the server has begun to close."""
        assert self.wire.disconnecting
        self._protocol.connectionLost(Failure(ConnectionDone()))

    def _do(self, act):  # type: ignore[no-untyped-def]
        """Do something, with what the two send to each other meanwhile."""
        for _ in range(20):
            try:
                return act()
            except ssl.SSLWantReadError:
                if not self._exchange():
                    raise
            finally:
                self._exchange()
        raise AssertionError("the handshake does not end")

    def _exchange(self) -> bool:
        sent = self._out.read()
        for part in ([sent[at : at + 1] for at in range(len(sent))] if self._chop else [sent]):
            if part:
                self._protocol.dataReceived(part)
        self._clock.advance(0)
        while self.wire.flush():
            self._clock.advance(0)
        news = self.wire.value()[self._seen :]
        self._seen += len(news)
        self._in.write(news)
        return bool(news or sent)
