"""An address to listen on, as the configuration gives it to the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: The longest path of a UNIX socket, in bytes (sockaddr_un without its final NUL).
LONGEST_SOCKET_PATH: Final = 107
#: Connections that wait for accept: a thousand peers may connect at once.
BACKLOG: Final = 1024


@dataclass(frozen=True)
class ListenAddress:
    """An address to listen on.

    :param kind: ``tcp`` (host, port), ``unix`` (path, mode, group) or ``endpoint`` (description).
    :param host: an address or name; empty for every IPv4 and IPv6 address.
    :param mode: permissions of a UNIX socket; 600 unless given, 660 with a group.
    :param description: a Twisted endpoint string, for every kind.
    :param display: in messages: a URL's host and port, a path, or the endpoint string.
    :param local: only this machine can connect: loopback or a UNIX socket.
    """

    kind: str
    host: str = ""
    port: int = 0
    path: str = ""
    mode: int | None = None
    group: str | None = None
    description: str = ""
    display: str = ""
    local: bool = False
