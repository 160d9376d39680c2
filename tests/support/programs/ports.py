"""TCP ports for programs that must be given a number: no two tests get the same, in any process."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

#: Below these the kernel never chooses a port itself, for a connection or for port 0.
_EPHEMERAL_FILE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_PORT: Final = 10_000
#: Reservations last as long as the process: the kernel takes them back, even from one that was killed.
_reservations: Final[list[socket.socket]] = []


def free_port() -> int:
    """A TCP port that no program uses on any address, reserved for this process until it ends."""
    end = int(_EPHEMERAL_FILE.read_text(encoding="ascii").split()[0])
    count = end - _FIRST_PORT
    # Processes start at different places, so that they seldom try the same port.
    start = os.getpid() * 101
    for step in range(count):
        port = _FIRST_PORT + (start + step) % count
        if _is_reserved(port) and _is_free(port):
            return port
    raise OSError("no TCP port is free")


def _is_reserved(port: int) -> bool:
    reservation = socket.socket(socket.AF_UNIX)
    try:
        # A name without a file: it is shared by all users, and gone with the process.
        reservation.bind(f"\0fakedev-test-port-{port}")
    except OSError:
        reservation.close()
        return False
    _reservations.append(reservation)
    return True


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("", port)).close()
    except OSError:
        return False
    return True
