"""Connections that are over are gone at once: what is set aside from the collection of garbage has none of them."""

from __future__ import annotations

import gc
from weakref import ref

import pytest

from tests.support.application import SMALL, application

_PORTS = (
    SMALL
    + """queues:
  names: {sleep: {}}
  listen-clients: ["127.0.0.1:9701"]
  listen-backends: ["127.0.0.1:9702"]
"""
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("port", "said"),
    [
        (9400, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"),
        (9400, b"GET /nodes/a/metrics HTTP/1.0\r\n\r\n"),
        (9400, b"half a requ"),
        (9500, b"list\n"),
        (9500, b'{"Na'),
        (9701, b'{"op":"put","id":1,"queue":"sleep","args":["0"]}\n'),
        (9702, b'{"op":"take","id":1,"queue":"sleep","wait":1}\n'),
        (9702, b""),
    ],
)
def test_a_connection_that_is_over(port: int, said: bytes) -> None:
    """Nothing remains that only the garbage collector would find, in every state of the connection."""
    with application(_PORTS) as app:
        (listening,) = [each for each in app.reactor.ports if getattr(each.getHost(), "port", 0) == port]
        gc.disable()
        try:
            wire = listening.connect()
            connection = ref(wire.protocol)
            if said:
                wire.protocol.dataReceived(said)
            wire.flush()
            if wire.connected:
                wire.abortConnection()
            wire.protocol = wire.producer = None  # as a transport lets go of them
            app.reactor.advance(0.0)
            assert connection() is None
        finally:
            gc.enable()
