"""Who the peer of a connection is: its host, its process and its user."""

from __future__ import annotations

import socket
import struct
from typing import Final

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.tcp import Server

#: Pid, user and group of a peer, as Linux gives them.
_CREDENTIALS: Final = struct.Struct("3i")


#: What the line ports use of a TCP connection is also there on a UNIX socket and under TLS.
StreamTransport = Server


def host_of(transport: StreamTransport) -> str:
    """The peer's host; empty on a UNIX socket."""
    return str(getattr(transport.getPeer(), "host", ""))


def origin_of(transport: StreamTransport) -> str:
    """The peer's host; on a UNIX socket its process."""
    return host_of(transport) or f"process {pid_of(transport)}"


def name_of(transport: StreamTransport) -> str:
    address = transport.getPeer()
    if isinstance(address, UNIXAddress):
        return "a peer on a UNIX socket"
    return f"{address.host}:{address.port}" if isinstance(address, IPv4Address | IPv6Address) else str(address)


def pid_of(transport: StreamTransport) -> int | None:
    """The process of a peer on a UNIX socket; None for other peers, and for processes of another PID namespace."""
    return _credentials(transport)[0] or None


def user_of(transport: StreamTransport) -> int | None:
    """The number of the user of a peer on a UNIX socket; None for other peers."""
    pid, user, _ = _credentials(transport)
    return user if pid or user else None


def has_input(transport: object) -> bool:
    """Whether bytes wait at a connection's socket that the reactor has not read yet."""
    get_handle = getattr(transport, "getHandle", None)
    handle = get_handle() if get_handle is not None else None
    if not isinstance(handle, socket.socket):
        return False
    try:
        return bool(handle.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except OSError:
        return False


def _credentials(transport: StreamTransport) -> tuple[int, int, int]:
    """Pid, user and group of a peer on a UNIX socket; zeros for others, which root's process 0 cannot be."""
    handle = getattr(transport, "getHandle", None)
    if handle is None or not isinstance(transport.getPeer(), UNIXAddress):
        return 0, 0, 0
    try:
        content = handle().getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, user, group = _CREDENTIALS.unpack(content)
    except (OSError, AttributeError, struct.error):  # not on Linux, or gone
        return 0, 0, 0
    return pid, user, group
