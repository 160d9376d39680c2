"""Backends killed at random under load: no request is lost or answered twice, and the counters add up."""

from __future__ import annotations

import json
import random
import signal
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
import pytest_twisted

from fakedev.queues.job import Outcome
from tests.support.programs.asynchronous import (
    FLEET,
    AsyncPeer,
    AsyncProgram,
    AsyncService,
    StartAsync,
    at_once,
    connected,
    ready,
)
from tests.support.programs.processes import PATIENCE_SECONDS, console

pytestmark = pytest.mark.real

REQUESTS = 20_000
KILLED = 50
LEFT = 4
#: Without retries a killed backend's jobs are lost at once; with them they are offered again.
RETRIES = {"once": 0, "again": 8}


class Client:
    """A connection that keeps some requests of a queue under way, and notes every answer.

    :ivar queue: its name.
    :ivar outcomes: how often which outcome was told.
    :ivar open: ids of requests that were not answered yet.
    """

    def __init__(self, queue: str, requests: int) -> None:
        self.queue = queue
        self.outcomes: Counter[str] = Counter()
        self.open: set[int] = set()
        self._ids = iter(range(requests))

    async def run(self, address: str, answered: Callable[[], None], at_once: int = 64) -> None:
        """Put all requests in, until each is answered.

        :param answered: called at each answer.
        """
        async with await connected(address) as peer:
            self._put(peer, at_once)
            while self.open:
                answer = json.loads(await peer.line())
                self.open.remove(answer["id"])  # a second answer is a KeyError
                self.outcomes[answer["outcome"]] += 1
                answered()
                self._put(peer, 1)

    def _put(self, peer: AsyncPeer, count: int) -> None:
        ids = list(islice(self._ids, count))
        self.open.update(ids)
        lines = ({"op": "put", "id": request, "queue": self.queue, "args": ["0.01"]} for request in ids)
        peer.transport.write("".join(f"{json.dumps(line)}\n" for line in lines).encode())


async def serve(start_async: StartAsync, folder: Path) -> tuple[AsyncService, str, str]:
    """A service with both queues; its addresses for clients and for backends."""
    clients, backends = str(folder / "clients.sock"), str(folder / "backends.sock")
    names = json.dumps({name: {"retries": retries} for name, retries in RETRIES.items()})
    config, file = folder / "fakedev.yaml", folder / "ready.json"
    config.write_text(
        f'{FLEET}\nweb: ["127.0.0.1:0"]\nworkloads: {{listen: ["{folder}/workloads.sock"]}}\n'
        f'queues: {{names: {names}, listen-clients: ["{clients}"], listen-backends: ["{backends}"]}}\n'
    )
    program = start_async([*console("fakedev"), "serve", "--config", str(config), "--ready-file", str(file)])
    return await ready(program, file), clients, backends


def start_backends(start_async: StartAsync, address: str) -> list[AsyncProgram]:
    """Backends of both queues, in both protocols in turn, in an order that says nothing; the last ones stay."""
    dice = random.Random(4)
    kinds = [(queue, protocol) for queue in RETRIES for protocol in ("json", "bare")]
    kinds = [*dice.sample(kinds * KILLED, KILLED), *kinds[:LEFT]]
    options = ["-backoff", "0.05", "-backoff-max", "0.05", "-workers", "2"]
    return [
        start_async(
            [*console("fakedev-backend"), "-faddr", address, "-name", queue, "-protocol", protocol, *options, "sleep"]
        )
        for queue, protocol in kinds
    ]


@pytest.mark.long
@pytest_twisted.ensureDeferred
async def test_backends_killed_at_random(start_async: StartAsync, tmp_path: Path) -> None:
    """Each request has exactly one outcome, is answered once, and is counted once."""
    service, address, backends_at = await serve(start_async, tmp_path)
    backends = start_backends(start_async, backends_at)
    for backend in backends:
        await backend.wait_for_text("for queue")
    clients = [Client(queue, REQUESTS // 8) for queue in RETRIES for _ in range(4)]
    victims = backends[:KILLED]
    answers = 0

    def answered() -> None:
        nonlocal answers
        answers += 1
        while victims and answers > (KILLED - len(victims) + 1) * REQUESTS // (KILLED + 5):
            victims.pop().send_signal(signal.SIGKILL)

    await at_once([client.run(address, answered) for client in clients], seconds=2 * PATIENCE_SECONDS)
    assert (answers, victims) == (REQUESTS, [])
    told = {queue: Counter[str]() for queue in RETRIES}
    for client in clients:
        told[client.queue] += client.outcomes
    for queue, retries in RETRIES.items():
        figures = await service.get_json(f"/api/v1/queues/{queue}")
        assert (figures["waiting"], figures["running"], figures["put"]) == (0, 0, REQUESTS // 2)
        assert {outcome.value: figures[outcome.value] for outcome in Outcome if figures[outcome.value]} == told[queue]
        assert set(told[queue]) <= ({"success"} if retries else {"success", "lost"})
    assert told["once"]["lost"] > 0
    for backend in backends[KILLED:]:
        assert backend.exit_code is None
