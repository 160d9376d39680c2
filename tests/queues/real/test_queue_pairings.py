"""Clients, frontends and backends, ours and the original's, in every pairing under load: each gets its own answer."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from tests.support.deferreds import within
from tests.support.programs.asynchronous import StartAsync, at_once, connected
from tests.support.programs.original_tester import request, to_go
from tests.support.programs.ports import free_port
from tests.support.programs.processes import console

pytestmark = pytest.mark.real

QUEUE = "q"
CLIENTS = 6
#: Of each client; a request says with which exit code it is to end, so that mixed up answers are seen.
REQUESTS = 40
Start = Callable[[StartAsync], Awaitable[tuple[str, str]]]


async def our_frontend(start: StartAsync) -> tuple[str, str]:
    """fakedev-frontend; its addresses for clients and for backends."""
    clients, backends, metrics = (f"127.0.0.1:{free_port()}" for _ in range(3))
    options = ["-caddr", clients, "-waddr", backends, "-maddr", metrics]
    await start([*console("fakedev-frontend"), *options, QUEUE]).wait_for_text("backends of the queues: ")
    return clients, backends


async def original_frontend(start: StartAsync) -> tuple[str, str]:
    """The stand-in for the original's; its addresses for clients and for backends."""
    program = start([sys.executable, "-m", "tests.support.programs.original_tester", QUEUE])
    _, clients, backends = (await program.wait_for_text("ready ")).split()
    return f"127.0.0.1:{clients}", f"127.0.0.1:{backends}"


async def our_backend(protocol: str, start: StartAsync, address: str, _: Deferred[None]) -> None:
    """fakedev-backend, which runs real commands until it is ended with the test."""
    options = ["-name", QUEUE, "-protocol", protocol, "-backoff", "0.01", "-backoff-max", "0.05", "-workers", "3"]
    start([*console("fakedev-backend"), "-faddr", address, *options, "/bin/sh", "-c"])


async def original_backends(_: StartAsync, address: str, over: Deferred[None]) -> None:
    """Three like the original's, until all is over: a connection for each job, and one read of 1024 bytes."""

    async def work() -> None:
        while not over.called:
            async with await connected(address) as connection:
                await connection.send(to_go({"Queue": QUEUE}))
                told = json.loads(await connection.some())
                if told["Empty"]:
                    await deferLater(reactor, 0.01)
                    continue
                code = int(told["Args"][0].removeprefix("exit "))
                result = {"Pod": "p", "Node": "n", "Device": "d", "Error": "", "Timeout": 0, "Runtime": 0.001}
                await connection.send(to_go({**result, "Retcode": code}))
                assert await connection.rest() == b""

    await at_once([work() for _ in range(3)])


async def original_client(address: str, codes: list[int]) -> list[int]:
    """A connection for each request, and one read of its answer; the exit codes that were told."""
    told = []
    for code in codes:
        async with await connected(address) as connection:
            await connection.send(request(QUEUE, [f"exit {code}"]))
            told.append(json.loads(await connection.some())["Retcode"])
    return told


async def client_in_json(address: str, codes: list[int]) -> list[int]:
    """All requests at once on one connection, told apart by their ids."""
    async with await connected(address) as peer:
        for number, code in enumerate(codes):
            line = {"op": "put", "id": number, "queue": QUEUE, "args": [f"exit {code}"]}
            await peer.send(json.dumps(line).encode() + b"\n")
        answers = [json.loads(await peer.line()) for _ in codes]
    by_id = {answer["id"]: answer["exit-code"] for answer in answers}
    return [by_id[number] for number in range(len(codes))]


async def client_in_words(address: str, codes: list[int]) -> list[int]:
    """All requests at once on one connection; their ends are told later, by job."""
    async with await connected(address) as peer:
        for code in codes:
            await peer.send(f"put {QUEUE} 'exit {code}'\n".encode())
        jobs: list[str] = []
        ended: dict[str, int] = {}
        while len(ended) < len(codes):
            line = await peer.line()
            if found := re.fullmatch(r"ended (\d+) \w+ exit-code=(\d+) .*", line):
                ended[found[1]] = int(found[2])
            else:
                jobs.append(line.removeprefix("ok "))
    return [ended[job] for job in jobs]


BACKENDS = {
    "our-backend-in-json": partial(our_backend, "json"),
    "our-backend-bare": partial(our_backend, "bare"),
    "original-backend": original_backends,
}
CLIENTS_OF = {"original-client": original_client, "client-in-json": client_in_json, "client-in-words": client_in_words}
#: Each dialect of clients and of backends meets a real frontend once; the original's understands bare JSON only.
#: Any other pair has the same jobs: the broker between them sees no dialect (tests/queues/test_broker.py).
PAIRINGS = [
    (our_frontend, "original-client", "our-backend-in-json"),
    (our_frontend, "client-in-json", "our-backend-bare"),
    (our_frontend, "client-in-words", "original-backend"),
    (original_frontend, "original-client", "our-backend-bare"),
]


@pytest.mark.parametrize(("frontend", "client", "backend"), PAIRINGS)
@pytest_twisted.ensureDeferred
async def test_pairing(start_async: StartAsync, frontend: Start, client: str, backend: str) -> None:
    """Several clients at once are each told the exit codes of their own requests."""
    clients_at, backends_at = await frontend(start_async)
    codes = [[(17 * place + number) % 100 for number in range(REQUESTS)] for place in range(CLIENTS)]
    over: Deferred[None] = Deferred()
    working = Deferred.fromCoroutine(BACKENDS[backend](start_async, backends_at, over))
    assert await at_once([CLIENTS_OF[client](clients_at, some) for some in codes]) == codes
    over.callback(None)
    await within(working)
