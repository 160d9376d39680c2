"""Stand-ins for programs of the original scalability tester: its frontend, and the messages of its client.

The frontend has the original's ports, messages to the byte, and limits: one read of at most 1024 bytes for each
message, nothing after a connection's one exchange. Run as a program it prints the ports of clients and of backends.

    python -m tests.support.programs.original_tester QUEUE...
"""

from __future__ import annotations

import json
import sys
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import gatherResults, maybeDeferred
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure

from tests.support.programs.asynchronous import AsyncPeer, connected

#: What the original reads of a message.
MAX_BYTES = 1024


def to_go(fields: dict[str, Any]) -> bytes:
    """An object as Go's json.MarshalIndent writes it with tabs."""
    return json.dumps(fields, indent="\t", ensure_ascii=False).encode()


def from_go(data: bytes) -> dict[str, Any]:
    """An object as Go's json.Unmarshal reads it: names in any letter case, here in lower case."""
    return {name.lower(): value for name, value in json.loads(data).items()}


def request(queue: str, args: list[str] | None, limit: float = 0) -> bytes:
    """What a client asks."""
    return to_go({"Queue": queue, "Args": args, "Limit": limit})


def work(args: list[str] | None, limit: float = 0, error: str = "", empty: bool = False) -> bytes:
    """What a backend is answered."""
    return to_go({"Error": error, "Args": args, "Limit": limit, "Empty": empty})


class _Connection(Protocol):  # type: ignore[misc]
    """A client or a backend; what comes in one read is a message, and a bad one closes the connection."""

    def __init__(self, frontend: OriginalFrontend) -> None:
        self.frontend = frontend

    def connectionMade(self) -> None:
        """Read as the original does (called by Twisted)."""
        self.transport.bufferSize = MAX_BYTES
        self.frontend.connections.add(self)

    def dataReceived(self, data: bytes) -> None:
        """A message has come (called by Twisted)."""
        try:
            self.read(data)
        except (ValueError, KeyError) as error:
            sys.stderr.write(f"{error!r}\n")
            self.transport.loseConnection()

    def read(self, data: bytes) -> None:
        """Act on a message; ValueError or KeyError when it has not the original's form."""
        raise NotImplementedError

    def answer(self, message: bytes) -> None:
        """Send the last message of the exchange."""
        self.transport.write(message)
        self.transport.loseConnection()

    def connectionLost(self, reason: Failure) -> None:
        """The connection is closed (called by Twisted)."""
        self.frontend.connections.discard(self)


@dataclass
class _Job:
    """A request, with the connection of its client, and since when it waits."""

    args: list[str] | None
    limit: float
    client: _Client
    since: float

    def end(self, result: dict[str, Any], wait_seconds: float) -> None:
        """Send the client its answer."""
        texts = {name: result.get(name.lower(), "") for name in ("Pod", "Node", "Device", "Error")}
        numbers = {"Timeout": result.get("timeout", 0), "Runtime": result.get("runtime", 0), "Waittime": wait_seconds}
        self.client.answer(to_go({**texts, **numbers, "Retcode": result.get("retcode", 0)}))


class _Client(_Connection):
    """A client, which sends one request."""

    _has_asked = False

    def read(self, data: bytes) -> None:
        """Queue its request."""
        if self._has_asked:
            return
        self._has_asked = True
        asked = from_go(data)
        job = _Job(asked.get("args"), asked.get("limit", 0), self, reactor.seconds())
        waiting = self.frontend.queues.get(asked["queue"])
        if waiting is None:
            job.end({"error": f"Unknown '{asked['queue']}' queue", "retcode": 1}, 0)
        else:
            waiting.append(job)


class _Backend(_Connection):
    """A backend, which asks for work and sends its result."""

    _job: _Job | None = None
    _wait_seconds = 0.0
    _has_asked = False

    def read(self, data: bytes) -> None:
        """Give it work, or take its result."""
        if self._job is not None:
            self._end(from_go(data))
            self.transport.loseConnection()
        elif not self._has_asked:
            self._has_asked = True
            name = from_go(data)["queue"]
            waiting = self.frontend.queues.get(name)
            if waiting is None:
                self.answer(work(None, error=f"Unknown '{name}' queue"))
            elif not waiting:
                self.answer(work(None, error=f"Queue '{name}' is empty", empty=True))
            else:
                self._job = waiting.popleft()
                self._wait_seconds = reactor.seconds() - self._job.since
                self.transport.write(work(self._job.args, self._job.limit))

    def connectionLost(self, reason: Failure) -> None:
        """Its job is lost with it (called by Twisted)."""
        super().connectionLost(reason)
        if self._job is not None:
            self._end({"error": "backend connection lost", "retcode": 1})

    def _end(self, result: dict[str, Any]) -> None:
        job, self._job = self._job, None
        assert job is not None
        self.frontend.results.append(result)
        job.end(result, self._wait_seconds)


class OriginalFrontend:
    """Both ports, on addresses that the system chooses.

    :ivar results: what backends sent, decoded, in the order of their coming.
    :ivar connections: those that are open.
    """

    def __init__(self, *queues: str, port: int = 0) -> None:
        self.queues: dict[str, deque[_Job]] = {name: deque() for name in queues}
        self.results: list[dict[str, Any]] = []
        self.connections: set[_Connection] = set()
        self._ports = [
            reactor.listenTCP(number, Factory.forProtocol(partial(kind, self)), interface="127.0.0.1")
            for number, kind in ((0, _Client), (port, _Backend))
        ]
        self.client_port, self.backend_port = (port.getHost().port for port in self._ports)

    async def __aenter__(self) -> OriginalFrontend:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Listen no more, and close all connections."""
        await gatherResults([maybeDeferred(port.stopListening) for port in self._ports])
        for connection in list(self.connections):
            connection.transport.abortConnection()

    async def put(self, queue: str, args: list[str] | None = None, limit: float = 0) -> AsyncPeer:
        """A client's request; the connection on which its answer will come."""
        client = await connected(f"127.0.0.1:{self.client_port}")
        await client.send(request(queue, args, limit))
        return client


async def answer_of(client: AsyncPeer) -> dict[str, Any]:
    """A client's answer, in its one read of 1024 bytes."""
    async with client:
        return dict(json.loads((await client.some())[:MAX_BYTES]))


def main() -> None:
    """Serve until killed."""
    frontend = OriginalFrontend(*sys.argv[1:])
    sys.stdout.write(f"ready {frontend.client_port} {frontend.backend_port}\n")
    sys.stdout.flush()
    reactor.run()


if __name__ == "__main__":
    main()
