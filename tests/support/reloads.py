"""Reloads of the application in memory, and what shows them."""

from __future__ import annotations

from tests.support.application import MemoryApplication
from tests.support.wire.http_wire import Answer, Peer, answers


def reload(app: MemoryApplication, text: str) -> Answer:
    """Put another configuration there, ask for it, and let a tick pass."""
    app.text = text
    peer = app.http()
    peer.send(b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
    app.tick()
    (answer,) = came(peer)
    return answer


def came(peer: Peer) -> list[Answer]:
    """The answers that have come."""
    peer.read()
    return answers(peer.transport.value())


def own(app: MemoryApplication) -> dict[str, str]:
    """Our own metrics of the configuration."""
    lines = app.get("/-/metrics").body.decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if line.startswith("fakedev_config"))


def ports(app: MemoryApplication) -> list[int]:
    """What is listened on."""
    return sorted(port.getHost().port for port in app.reactor.ports)
