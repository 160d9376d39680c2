"""The addresses of a host's name."""

from __future__ import annotations

import socket
import threading
from typing import Any

from twisted.internet.defer import Deferred


def look_up_addresses(reactor: Any, host: str) -> Deferred[list[str]]:
    """The addresses of a name, IPv4 and IPv6, in the system's order; fails with OSError.

    A thread of its own looks them up: the reactor waits for its threads when it stops, and a resolver may hang.
    """
    found: Deferred[list[str]] = Deferred()

    def look() -> None:
        try:
            entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError as error:
            reactor.callFromThread(found.errback, error)
            return
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        reactor.callFromThread(found.callback, addresses)

    threading.Thread(target=look, daemon=True).start()
    return found
