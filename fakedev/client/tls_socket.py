"""TLS on a non-blocking socket: it raises what plain sockets raise when it has to wait."""

from __future__ import annotations

import select
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fakedev.client.tls import client_context
from fakedev.spec.client_tls import ClientTls

if TYPE_CHECKING:
    import socket


@contextmanager
def _as_plain() -> Iterator[None]:
    try:
        yield
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        raise BlockingIOError from None


class _TlsSocket(ssl.SSLSocket):
    """Raises BlockingIOError where it would block."""

    def recv(self, *arguments: Any) -> bytes:
        """See socket.recv; the end of the connection is empty, in order or not."""
        with _as_plain():
            return super().recv(*arguments)

    def send(self, *arguments: Any) -> int:
        """See socket.send."""
        with _as_plain():
            return super().send(*arguments)


def secured(connection: socket.socket, host: str, tls: ClientTls, wait: Callable[[int, int], None]) -> socket.socket:
    """TLS on a connected socket, which is closed when that fails.

    :param host: the server's certificate must be for it.
    :param wait: waits for events of a descriptor, those of select.poll, or raises.
    :raises OSError: when a file cannot be used, or the server is refused, or refuses us.
    """
    try:
        context = client_context(tls)
        context.sslsocket_class = _TlsSocket
        made = context.wrap_socket(connection, server_hostname=host, do_handshake_on_connect=False)
    except BaseException:
        connection.close()
        raise
    try:
        while True:
            try:
                made.do_handshake()
            except ssl.SSLWantReadError:
                wait(made.fileno(), select.POLLIN)
            except ssl.SSLWantWriteError:
                wait(made.fileno(), select.POLLOUT)
            else:
                return made
    except BaseException:
        made.close()
        raise
