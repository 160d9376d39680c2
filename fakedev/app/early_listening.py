"""Listening before anything slow is imported: the system accepts connections, and the reactor serves them once it runs.

For a drop-in whose users connect within a fraction of a second. Apart from Twisted, which takes longer to import.
"""

from __future__ import annotations

import socket
from ipaddress import IPv4Address

from fakedev.config.listen import parse_listen
from fakedev.spec.listen_address import BACKLOG


def listen_early(text: str) -> socket.socket | None:
    """A socket that listens on an address, in the words of the configuration.

    :returns: None for an address that needs more than this, and for one that cannot be used: listening on it in the
        usual way explains why.
    """
    try:
        address = parse_listen(text)
        if address.kind != "tcp":
            return None
        if address.host:
            return _listening(socket.AF_INET, (str(IPv4Address(address.host)), address.port))
        return _listening(socket.AF_INET6, ("::", address.port))
    except (OSError, ValueError):
        return None


def _listening(family: socket.AddressFamily, place: tuple[str, int]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # IPv4 too
        made.bind(place)
        made.listen(BACKLOG)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made
