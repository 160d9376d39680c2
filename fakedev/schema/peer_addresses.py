"""Where a server listens, as the user of its client writes it, or in the default folder of sockets; TLS of a client."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

#: How the address of a line port with TLS begins.
TLS_SCHEME: Final = "tls://"

#: The options, without their dashes, with what they are for; they are also keys of the configuration.
TLS_OPTIONS: Final[Mapping[str, str]] = {
    "ca-file": "CA certificates (PEM) for a tls:// or https:// address; without it those that the system trusts",
    "cert-file": "our own certificate (PEM), if the server requires one",
    "key-file": "the key of our own certificate",
}


@dataclass(frozen=True)
class ClientTls:
    """How a client speaks TLS with a server, whose certificate must be for the host of the address.

    :param ca_file: what signs the server's certificate; empty: what the system trusts.
    :param cert_file: our own certificate; empty: none.
    :param key_file: its key.
    """

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def __post_init__(self) -> None:
        if bool(self.cert_file) is not bool(self.key_file):
            raise ValueError("cert-file and key-file go together: give both of them")

    def __bool__(self) -> bool:
        return bool(self.ca_file or self.cert_file)

#: No files: the certificates that the system trusts, and none of our own.
NO_FILES: Final = ClientTls()

#: The sockets of the built-in demo, in the default folder of sockets: of the workload port, and of HTTP.
WORKLOAD_SOCKET: Final = "workload.sock"

HTTP_SOCKET: Final = "metrics.sock"


@dataclass(frozen=True)
class Address:
    """Where a server listens: a UNIX socket's path (@name: an abstract one), or a TCP host and port.

    :param shown: as the user gave it.
    :param tls: how to speak TLS with it; None: plain text.
    """

    shown: str
    path: str = ""
    host: str = ""
    port: int = 0
    tls: ClientTls | None = None

    def __str__(self) -> str:
        return self.shown


def parse_address(text: str) -> Address:
    """``/path``, ``name-of-file``, ``HOST:PORT``, ``:PORT`` (this machine) or ``[::1]:PORT``; ``tls://HOST:PORT``.

    :raises ValueError: with what would be right.
    """
    if text.startswith(TLS_SCHEME):
        inner = parse_address(text.removeprefix(TLS_SCHEME))
        if inner.path or inner.tls is not None:
            raise ValueError(f"{text!r} is no socket: give TLS as {TLS_SCHEME}HOST:PORT")
        return replace(inner, shown=text, tls=ClientTls())
    if not text or "\0" in text:
        raise ValueError(f"{text!r} is no socket: give a UNIX socket's path or HOST:PORT")
    host, colon, port = text.rpartition(":")
    if "/" in text or text.startswith("@") or not colon:
        return Address(text, path=text)
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"{text!r} is no socket: {port!r} is no port, 1 to 65535 (a file of this name is ./{text})")
    bracketed = host.startswith("[") and host.endswith("]")
    if ":" in host and not bracketed:
        raise ValueError(f"{text!r} is no socket: an IPv6 address goes in brackets, as [::1]:9997")
    return Address(text, host=(host[1:-1] if bracketed else host) or "localhost", port=int(port))


def with_tls(address: Address, tls: ClientTls) -> Address:
    """An address with the files of TLS that options give.

    :raises ValueError: when the address has no TLS, which the files would need.
    """
    if not tls:
        return address
    if address.tls is None:
        raise ValueError(f"{address} has no TLS, which the files are for: give it as {TLS_SCHEME}HOST:PORT")
    return replace(address, tls=tls)


def runtime_folder(variable: Callable[[str], str | None]) -> str:
    """The default folder of sockets: the service's, the user's, or a private one in the temporary folder.

    :param variable: returns the value of an environment variable.
    :raises ValueError: when no folder can be written.
    """
    folder = (variable("RUNTIME_DIRECTORY") or "").split(":")[0]
    if folder:
        return folder
    folder = variable("XDG_RUNTIME_DIR") or ""
    if folder:
        return os.path.join(folder, "fakedev")
    import tempfile  # noqa: PLC0415 - takes milliseconds, and is rarely needed

    try:
        folder = variable("TMPDIR") or tempfile.gettempdir()
    except OSError:
        raise ValueError(
            "there is no folder for sockets, as no temporary folder can be written: set RUNTIME_DIRECTORY or TMPDIR "
            "to one that can, or give the path of the socket"
        ) from None
    return os.path.join(folder, f"fakedev-{os.getuid()}")
