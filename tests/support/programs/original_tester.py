"""Stand-ins for programs of the original scalability tester: its frontend, and the messages of its client.

The frontend has the original's ports, messages to the byte, and limits. Run as a program it prints the ports of
clients and of backends. One read of 1024 bytes for each message, a thread for each connection, nothing after a
connection's one exchange.

    python -m tests.support.programs.original_tester QUEUE...
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

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


@dataclass
class Waiting:
    """A request that waits, with the connection of its client."""

    args: list[str] | None
    limit: float
    client: socket.socket
    since: float = field(default_factory=time.monotonic)


class OriginalFrontend:
    """Both ports, on addresses that the system chooses.

    :ivar results: what backends sent, decoded, in the order of their coming.
    :ivar asked: how many backends' questions came.
    """

    def __init__(self, *queues: str, port: int = 0) -> None:
        self.queues: dict[str, deque[Waiting]] = {name: deque() for name in queues}
        self.results: list[dict[str, Any]] = []
        self.asked = 0
        self.changed = threading.Condition()
        self._clients = socket.create_server(("127.0.0.1", 0))
        self._backends = socket.create_server(("127.0.0.1", port))
        self.client_port: int = self._clients.getsockname()[1]
        self.backend_port: int = self._backends.getsockname()[1]
        for listening, serve in ((self._clients, self._serve_client), (self._backends, self._serve_backend)):
            threading.Thread(target=self._accept, args=(listening, serve), daemon=True).start()

    def __enter__(self) -> OriginalFrontend:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Listen no more."""
        for listening in (self._clients, self._backends):
            with listening, suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)

    def put(self, queue: str, args: list[str] | None = None, limit: float = 0) -> socket.socket:
        """A client's request; the connection on which its answer will come."""
        client = socket.create_connection(("127.0.0.1", self.client_port))
        client.sendall(request(queue, args, limit))
        return client

    def wait_for_results(self, count: int, seconds: float = 60.0) -> list[dict[str, Any]]:
        """The results, when so many have come."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.results) >= count, seconds), self.results
        return self.results

    def _accept(self, listening: socket.socket, serve: Any) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=self._guarded, args=(serve, connection), daemon=True).start()

    def _guarded(self, serve: Any, connection: socket.socket) -> None:
        try:
            serve(connection)
        except (OSError, ValueError, KeyError) as error:
            sys.stderr.write(f"{error!r}\n")
            connection.close()

    def _serve_client(self, connection: socket.socket) -> None:
        asked = from_go(connection.recv(MAX_BYTES))
        waiting = self.queues.get(asked["queue"])
        if waiting is None:
            self._answer(connection, {"error": f"Unknown '{asked['queue']}' queue", "retcode": 1}, 0)
        else:
            with self.changed:
                waiting.append(Waiting(asked.get("args"), asked.get("limit", 0), connection))
                self.changed.notify_all()

    def _serve_backend(self, connection: socket.socket) -> None:
        name = from_go(connection.recv(MAX_BYTES))["queue"]
        waiting = self.queues.get(name)
        with self.changed:
            self.asked += 1
            job = waiting.popleft() if waiting else None
            self.changed.notify_all()
        if waiting is None:
            connection.sendall(work(None, error=f"Unknown '{name}' queue"))
        elif job is None:
            connection.sendall(work(None, error=f"Queue '{name}' is empty", empty=True))
        else:
            wait_seconds = time.monotonic() - job.since
            connection.sendall(work(job.args, job.limit))
            data = connection.recv(MAX_BYTES)
            result = from_go(data) if data else {"error": "backend connection lost", "retcode": 1}
            with self.changed:
                self.results.append(result)
                self.changed.notify_all()
            self._answer(job.client, result, wait_seconds)
        connection.close()

    def _answer(self, client: socket.socket, result: dict[str, Any], wait_seconds: float) -> None:
        texts = {name: result.get(name.lower(), "") for name in ("Pod", "Node", "Device", "Error")}
        numbers = {"Timeout": result.get("timeout", 0), "Runtime": result.get("runtime", 0), "Waittime": wait_seconds}
        with client:
            client.sendall(to_go({**texts, **numbers, "Retcode": result.get("retcode", 0)}))


def answer_of(client: socket.socket) -> dict[str, Any]:
    """A client's answer, in its one read."""
    with client:
        client.settimeout(60)
        return dict(json.loads(client.recv(MAX_BYTES)))


def main() -> None:
    """Serve until killed."""
    frontend = OriginalFrontend(*sys.argv[1:])
    sys.stdout.write(f"ready {frontend.client_port} {frontend.backend_port}\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
