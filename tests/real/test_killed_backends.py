"""Backends killed at random under load: no request is lost or answered twice, and the counters add up."""

from __future__ import annotations

import json
import random
import select
import signal
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from fakedev.workqueue.outcome import Outcome
from tests.support.programs.processes import PATIENCE_SECONDS, Program, console
from tests.support.programs.service import FLEET, Peer, Service, StartProgram, ready

pytestmark = pytest.mark.real

REQUESTS = 20_000
KILLED = 50
LEFT = 4
#: Without retries a killed backend's jobs are lost at once; with them they are offered again.
RETRIES = {"once": 0, "again": 8}


class Client:
    """A connection that keeps some requests of a queue under way, and notes every answer.

    :ivar outcomes: how often which outcome was told.
    :ivar open: ids of requests that were not answered yet.
    """

    def __init__(self, address: str, queue: str, requests: int, at_once: int) -> None:
        self.peer = Peer(address)
        self.outcomes: Counter[str] = Counter()
        self.open: set[int] = set()
        self._queue = queue
        self._ids = iter(range(requests))
        self._rest = b""
        self.put(at_once)

    def put(self, count: int) -> None:
        """Put requests in, as far as there are any left."""
        ids = list(islice(self._ids, count))
        self.open.update(ids)
        lines = ({"op": "put", "id": request, "queue": self._queue, "args": ["0.01"]} for request in ids)
        self.peer.send("".join(f"{json.dumps(line)}\n" for line in lines).encode())

    def read(self) -> int:
        """Note what came; the number of answers."""
        data = self.peer.socket.recv(1 << 16)
        assert data, "the frontend closed the connection"
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            self.open.remove(answer["id"])  # a second answer is a KeyError
            self.outcomes[answer["outcome"]] += 1
        self.put(len(lines))
        return len(lines)


def serve(start_program: StartProgram, folder: Path) -> tuple[Service, str, str]:
    """A service with both queues; its addresses for clients and for backends."""
    clients, backends = str(folder / "clients.sock"), str(folder / "backends.sock")
    names = json.dumps({name: {"retries": retries} for name, retries in RETRIES.items()})
    config, file = folder / "fakedev.yaml", folder / "ready.json"
    config.write_text(
        f'{FLEET}\nweb: ["127.0.0.1:0"]\nworkloads: {{listen: ["{folder}/workloads.sock"]}}\n'
        f'queues: {{names: {names}, listen-clients: ["{clients}"], listen-backends: ["{backends}"]}}\n'
    )
    program = start_program([*console("fakedev"), "serve", "--config", str(config), "--ready-file", str(file)])
    return ready(program, file), clients, backends


def start_backends(start_program: StartProgram, address: str) -> list[Program]:
    """Backends of both queues, in both protocols in turn, in an order that says nothing; the last ones stay."""
    dice = random.Random(4)
    kinds = [(queue, protocol) for queue in RETRIES for protocol in ("json", "bare")]
    kinds = [*dice.sample(kinds * KILLED, KILLED), *kinds[:LEFT]]
    options = ["-backoff", "0.05", "-backoff-max", "0.05", "-workers", "2"]
    return [
        start_program(
            [*console("fakedev-backend"), "-faddr", address, "-name", queue, "-protocol", protocol, *options, "sleep"]
        )
        for queue, protocol in kinds
    ]


def test_backends_killed_at_random(start_program: StartProgram, tmp_path: Path) -> None:
    """Each request has exactly one outcome, is answered once, and is counted once."""
    service, address, backends_at = serve(start_program, tmp_path)
    backends = start_backends(start_program, backends_at)
    for backend in backends:
        backend.wait_for_text("for queue")
    clients = [Client(address, queue, REQUESTS // 8, at_once=64) for queue in RETRIES for _ in range(4)]
    victims = backends[:KILLED]
    by_socket = {client.peer.socket: client for client in clients}
    answered = 0
    while any(client.open for client in clients):
        readable, _, _ = select.select(list(by_socket), [], [], PATIENCE_SECONDS)
        assert readable, f"no answer after {answered}"
        answered += sum(by_socket[each].read() for each in readable)
        while victims and answered > (KILLED - len(victims) + 1) * REQUESTS // (KILLED + 5):
            victims.pop().process.send_signal(signal.SIGKILL)
    assert (answered, victims) == (REQUESTS, [])
    told = {queue: Counter[str]() for queue in RETRIES}
    for client, queue in zip(clients, [queue for queue in RETRIES for _ in range(4)], strict=True):
        told[queue] += client.outcomes
        client.peer.leave()
    for queue, retries in RETRIES.items():
        figures = service.get_json(f"/api/v1/queues/{queue}")
        assert (figures["waiting"], figures["running"], figures["put"]) == (0, 0, REQUESTS // 2)
        assert {outcome.value: figures[outcome.value] for outcome in Outcome if figures[outcome.value]} == told[queue]
        assert set(told[queue]) <= ({"success"} if retries else {"success", "lost"})
    assert told["once"]["lost"] > 0
    for backend in backends[KILLED:]:
        assert backend.process.poll() is None
