"""The client's side of TLS with Python's own ssl: files to a context, and its errors in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fakedev.spec.client_tls import ClientTls
from fakedev.spec.os_errors import plain_reason

if TYPE_CHECKING:
    import ssl


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
            # A key with a password is refused: nobody can be asked for it.
            context.load_cert_chain(tls.cert_file, tls.key_file, lambda: b"")
        except OSError as error:
            files = f"cert-file, key-file: {tls.cert_file}, {tls.key_file}"
            raise CannotUseTls(f"{files}: {_reason(error, 'a certificate and its key, without a password')}") from None
    return context


def _reason(error: OSError, what: str) -> str:
    import ssl  # noqa: PLC0415 - see above

    return f"is not {what} in PEM" if isinstance(error, ssl.SSLError) else plain_reason(error)


def connection_reason(error: BaseException) -> str:
    """Why a connection failed, as :func:`~fakedev.spec.os_errors.plain_reason`; of TLS in words of its own."""
    if isinstance(error, CannotUseTls):
        return str(error)
    verification = getattr(error, "verify_message", "")
    if verification:
        return f"the server's certificate is refused: {verification}"
    if type(error).__module__ == "ssl":
        text = getattr(error, "reason", "") or str(error)
        return f"TLS failed: {text.replace('_', ' ').lower()}"
    return plain_reason(error)
