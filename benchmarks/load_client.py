"""A fast HTTP client in a process of its own: asks for one path again and again, and measures the answers.

``python benchmarks/load_client.py HOST:PORT PATH --connections 8 --seconds 1`` prints one line of JSON.
Each connection asks as soon as it has its answer, or every ``--interval`` seconds. With ``--numbers N`` a {} in the
path is 0, 1, ... N - 1 in turn.
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle
from time import perf_counter, sleep


@dataclass
class Connection:
    """One connection, kept alive, with at most one request under way."""

    peer: socket.socket
    requests: Iterator[bytes]
    received: int = 0
    expected: int = 0  # head and body; 0 until the head is there
    head: bytes = b""
    asked_at: float = 0.0
    latencies: list[float] = field(default_factory=list)

    def ask(self) -> None:
        """Send the request."""
        self.received = self.expected = 0
        self.head = b""
        self.asked_at = perf_counter()
        self.peer.sendall(next(self.requests))

    def take(self, buffer: bytearray) -> bool:
        """Read some of the answer.

        :returns: whether it is complete.
        """
        count = self.peer.recv_into(buffer)
        if not count:
            raise ConnectionError("the server closed the connection")
        self.received += count
        if not self.expected:
            self.head += bytes(buffer[: min(count, 4096)])
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return False
            if not self.head.startswith(b"HTTP/1.1 200"):
                raise ConnectionError(f"unexpected answer {self.head[:60]!r}")
            after = self.head.lower().index(b"content-length:") + len(b"content-length:")
            self.expected = end + 4 + int(self.head[after : self.head.index(b"\r", after)])
        if self.received < self.expected:
            return False
        self.latencies.append(perf_counter() - self.asked_at)
        return True


def measure(
    address: str, path: str, connections: int, seconds: float, interval: float, numbers: int
) -> dict[str, float]:
    """Ask for some time.

    :param path: {} in it is a number below ``numbers``, each in turn.
    :param interval: seconds between the requests of a connection; 0: as fast as it goes.
    """
    host, _, port = address.rpartition(":")
    paths = [path.replace("{}", str(number)) for number in range(numbers)]
    requests = cycle([f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode() for path in paths])
    all_of_them = [Connection(socket.create_connection((host, int(port))), requests) for _ in range(connections)]
    began = perf_counter()
    if interval:
        _ask_in_turn(all_of_them, began + seconds, interval)
    else:
        _ask_together(all_of_them, began + seconds)
    elapsed = perf_counter() - began
    latencies = sorted(latency for each in all_of_them for latency in each.latencies)
    return {
        "requests": len(latencies),
        "per_second": len(latencies) / elapsed,
        "p50": latencies[len(latencies) // 2],
        "p99": latencies[len(latencies) * 99 // 100],
        "worst": latencies[-1],
    }


def _ask_together(connections: list[Connection], until: float) -> None:
    buffer = bytearray(1 << 20)
    selector = selectors.DefaultSelector()
    for connection in connections:
        connection.peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        selector.register(connection.peer, selectors.EVENT_READ, connection)
        connection.ask()
    under_way = len(connections)
    while under_way:
        for key, _ in selector.select():
            if key.data.take(buffer):
                if perf_counter() < until:
                    key.data.ask()
                else:
                    selector.unregister(key.data.peer)
                    under_way -= 1


def _ask_in_turn(connections: list[Connection], until: float, interval: float) -> None:
    """A request each interval. One that must wait for a late answer counts from when it was due."""
    buffer = bytearray(1 << 20)
    due = perf_counter()
    while due < until:
        for connection in connections:
            early = due - perf_counter()
            if early > 0:
                sleep(early)
            connection.ask()
            if early <= 0:
                connection.asked_at = due
            while not connection.take(buffer):
                pass
            due += interval / len(connections)


def main() -> None:
    """Measure, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("path")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--interval", type=float, default=0.0)
    parser.add_argument("--numbers", type=int, default=1)
    print(json.dumps(measure(**vars(parser.parse_args()))))


if __name__ == "__main__":
    main()
