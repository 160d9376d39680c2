"""TLS of clients with Python's own ssl: contexts from files, errors in plain words, non-blocking sockets.

A TLS socket that has to wait raises what a plain socket raises.
"""

from __future__ import annotations

import select
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fakedev.base.errors import plain_reason
from fakedev.schema.peer_addresses import ClientTls

if TYPE_CHECKING:
    import socket

class CannotUseTls(OSError):
    """A file of the client's side of TLS cannot be used; the text says which, and why."""


def client_context(tls: ClientTls) -> ssl.SSLContext:
    """The context of a client. TLS 1.2 and later; the server's certificate and its name are checked.

    :raises CannotUseTls: when a file cannot be used.
    """
    import ssl  # noqa: PLC0415 - takes milliseconds, and few addresses need it

    try:
        context = ssl.create_default_context(cafile=tls.ca_file or None)
    except OSError as error:
        raise CannotUseTls(f"ca-file: {tls.ca_file}: {_reason(error, 'a certificate')}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.cert_file:
        try:
            # A key with a password is rejected: there is nobody to type it.
            context.load_cert_chain(tls.cert_file, tls.key_file, lambda: b"")
        except OSError as error:
            files = f"cert-file, key-file: {tls.cert_file}, {tls.key_file}"
            raise CannotUseTls(f"{files}: {_reason(error, 'a certificate and its key, without a password')}") from None
    return context


def _reason(error: OSError, what: str) -> str:
    import ssl  # noqa: PLC0415 - see above

    return f"is not {what} in PEM" if isinstance(error, ssl.SSLError) else plain_reason(error)


def connection_reason(error: BaseException) -> str:
    """Why a connection failed, as :func:`~fakedev.base.errors.plain_reason`; of TLS in words of its own."""
    if isinstance(error, CannotUseTls):
        return str(error)
    verification = getattr(error, "verify_message", "")
    if verification:
        return f"the server's certificate is refused: {verification}"
    if type(error).__module__ == "ssl":
        text = getattr(error, "reason", "") or str(error)
        return f"TLS failed: {text.replace('_', ' ').lower()}"
    return plain_reason(error)


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
    :param wait: waits for events of a descriptor (as in select.poll), or raises.
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
