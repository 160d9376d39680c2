"""Both ports of the work queue in memory, and transcripts of their messages.

A transcript is lines of ``WHO> sent text`` and ``WHO: received text``; WHO begins with ``c`` for a client and with
``b`` for a backend, and connects when it is first named. ``WHO> EOF`` closes its sending side, ``WHO> GONE`` breaks its
connection, ``WHO: closed`` says that it was closed, ``+ 5`` lets seconds pass. There are no other messages, and JSON
is compared as such.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from fakedev.lines.protocol import PortProtocol
from fakedev.queues.backend_port import QueueBackendFactory
from fakedev.queues.broker import Broker
from fakedev.queues.client_port import QueueClientFactory
from fakedev.queues.port import QueueHub
from fakedev.queues.settings import BrokerSpec, QueueSpec
from fakedev.runtime.turns import FairShare
from tests.support.wire.line_peers import WritesTransport


class QueueConnection:
    """A connection to one of the ports."""

    def __init__(self, peer: PortProtocol) -> None:
        self.peer = peer
        self.transport = WritesTransport()
        peer.makeConnection(self.transport)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed from our side."""
        return self.transport.disconnecting

    def send(self, data: bytes, piece_bytes: int = 65536) -> None:
        """Let bytes arrive, in pieces."""
        for start in range(0, len(data), piece_bytes):
            self.peer.dataReceived(data[start : start + piece_bytes])

    def told(self) -> bytes:
        """What was told since the last time."""
        value: bytes = self.transport.value()
        self.transport.clear()
        return value

    def say(self, line: str) -> list[str]:
        """Send a line; the lines told since the last time."""
        self.send(line.encode() + b"\n")
        return self.told().decode().splitlines()

    def end(self) -> None:
        """Close the sending side."""
        self.peer.readConnectionLost()

    def lose(self) -> None:
        """Break the connection."""
        self.peer.connectionLost(Failure(ConnectionLost()))


class QueuePorts:
    """A broker with the queues ``sleep`` and ``other``, and its two ports.

    :param queue: what the queue ``sleep`` has beside its name.
    """

    def __init__(self, message_seconds: float = 10.0, max_bytes: int = 2**28, **queue: Any) -> None:
        self.clock = Clock()
        spec = BrokerSpec((QueueSpec("sleep", **queue), QueueSpec("other")), max_bytes=max_bytes)
        self.broker = Broker(spec, self.clock.seconds())
        fair_share = FairShare(self.clock)
        self.hub = QueueHub(self.broker, self.clock, fair_share)
        options: Any = {"fair_share": fair_share, "message_seconds": message_seconds}
        self.clients = QueueClientFactory(self.hub, self.clock, **options)
        self.backends = QueueBackendFactory(self.hub, self.clock, **options)

    def client(self) -> QueueConnection:
        """A new connection to the client port."""
        return QueueConnection(self.clients.buildProtocol(None))

    def backend(self) -> QueueConnection:
        """A new connection to the backend port."""
        return QueueConnection(self.backends.buildProtocol(None))

    def counted(self) -> dict[str, int]:
        """The outcomes of the queue ``sleep`` that were counted."""
        counts = self.broker.statistics("sleep").outcomes
        return {outcome.value: count for outcome, count in counts.items() if count}


class Transcript:
    """Plays a transcript.

    :param piece_bytes: the size of the pieces in which what is sent arrives.
    """

    def __init__(self, ports: QueuePorts, piece_bytes: int = 65536) -> None:
        self._ports = ports
        self._piece_bytes = piece_bytes
        self._connections: dict[str, QueueConnection] = {}

    def play(self, transcript: str) -> None:
        """Send what it says; fail when a peer receives anything else than it says."""
        expected: dict[str, list[str]] = {}
        for line in transcript.splitlines():
            who, _, said = line.strip().partition(" ")
            if who.endswith(":"):
                expected.setdefault(who[:-1], []).append(said)
            elif who:
                self._check(expected)
                expected.clear()
                self._do(who, said)
        self._check(expected)

    def _do(self, who: str, said: str) -> None:
        if who == "+":
            self._ports.clock.advance(float(said))
            return
        name = who.removesuffix(">")
        if name not in self._connections:
            self._connections[name] = self._ports.client() if name.startswith("c") else self._ports.backend()
        connection = self._connections[name]
        match said:
            case "EOF":
                connection.end()
            case "GONE":
                connection.lose()
                del self._connections[name]
            case _:
                connection.send(said.encode() + b"\n", self._piece_bytes)

    def _check(self, expected: Mapping[str, Sequence[str]]) -> None:
        self._ports.clock.advance(0)
        told = {}
        for name, connection in list(self._connections.items()):
            lines = connection.told().decode().splitlines()
            if connection.is_closed:
                lines.append("closed")
                del self._connections[name]
            if lines:
                told[name] = [_compared(line) for line in lines]
        wanted = {name: [_compared(line) for line in lines] for name, lines in expected.items()}
        if told != wanted:
            raise AssertionError(f"told is\n{told}\nand not\n{wanted}")


def _compared(line: str) -> object:
    return json.loads(line) if line.startswith("{") else line
