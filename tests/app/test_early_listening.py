"""Listening before the program is there: connections wait, and are served once it is."""

from __future__ import annotations

import socket

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.protocol import Factory
from twisted.protocols.wire import Echo

from fakedev.app.early_listening import listen_early
from fakedev.config.listen import parse_listen
from fakedev.net.system.listening import ListeningService
from tests.support.programs.asynchronous import connected


@pytest.mark.parametrize("host", ["127.0.0.1", "*"])
@pytest_twisted.ensureDeferred
async def test_a_connection_waits(host: str) -> None:
    """The system accepts it, and the service that adopts the socket answers; on all addresses also by IPv4."""
    early = listen_early(f"{host}:0")
    assert early is not None
    port = early.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)):
        service = ListeningService(parse_listen(f"{host}:{port}"), Factory.forProtocol(Echo), reactor)
        service.adopted = early
        service.startService()
        peer = await connected(f"127.0.0.1:{port}")
        assert await peer.say("hello") == "hello"
        await peer.leave()
        await service.stopService()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_what_is_left_to_the_usual_way() -> None:
    """A name, a UNIX socket, a text that is no address, and an address in use: that way explains what is wrong."""
    with socket.create_server(("127.0.0.1", 0)) as busy:
        for text in ("localhost:0", "/run/x.sock", "x", "", f"127.0.0.1:{busy.getsockname()[1]}"):
            assert listen_early(text) is None, text
