"""Clients, frontends and backends, ours and the original's, in every pairing under load: each gets its own answer."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from tests.support.programs.original_tester import answer_of, request, to_go
from tests.support.programs.ports import free_port
from tests.support.programs.processes import console
from tests.support.programs.service import Peer, StartProgram, at_once, connected

pytestmark = pytest.mark.real

QUEUE = "q"
CLIENTS = 6
#: Of each client; a request says with which exit code it is to end, so that mixed up answers are seen.
REQUESTS = 40
Start = Callable[[StartProgram], tuple[str, str]]


def our_frontend(start_program: StartProgram) -> tuple[str, str]:
    """fakedev-frontend; its addresses for clients and for backends."""
    clients, backends, metrics = (f"127.0.0.1:{free_port()}" for _ in range(3))
    options = ["-caddr", clients, "-waddr", backends, "-maddr", metrics]
    start_program([*console("fakedev-frontend"), *options, QUEUE]).wait_for_text("backends of the queues: ")
    return clients, backends


def original_frontend(start_program: StartProgram) -> tuple[str, str]:
    """The stand-in for the original's; its addresses for clients and for backends."""
    program = start_program([sys.executable, "-m", "tests.support.programs.original_tester", QUEUE])
    _, clients, backends = program.wait_for_text("ready ").split()
    return f"127.0.0.1:{clients}", f"127.0.0.1:{backends}"


@contextmanager
def our_backend(protocol: str, start_program: StartProgram, address: str) -> Iterator[None]:
    """fakedev-backend, which runs real commands."""
    options = ["-name", QUEUE, "-protocol", protocol, "-backoff", "0.01", "-backoff-max", "0.05", "-workers", "3"]
    start_program([*console("fakedev-backend"), "-faddr", address, *options, "/bin/sh", "-c"])
    yield


@contextmanager
def original_backends(start_program: StartProgram, address: str) -> Iterator[None]:
    """Three like the original's: a connection for each job, and one read of 1024 bytes."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            with connected(address) as connection:
                connection.sendall(to_go({"Queue": QUEUE}))
                told = json.loads(connection.recv(1024))
                if told["Empty"]:
                    over.wait(0.01)
                else:
                    code = int(told["Args"][0].removeprefix("exit "))
                    result = {"Pod": "p", "Node": "n", "Device": "d", "Error": "", "Timeout": 0, "Runtime": 0.001}
                    connection.sendall(to_go({**result, "Retcode": code}))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def original_client(address: str, codes: list[int]) -> list[int]:
    """A connection for each request, and one read of its answer; the exit codes that were told."""
    told = []
    for code in codes:
        connection = connected(address)
        connection.sendall(request(QUEUE, [f"exit {code}"]))
        told.append(answer_of(connection)["Retcode"])
    return told


def client_in_json(address: str, codes: list[int]) -> list[int]:
    """All requests at once on one connection, told apart by their ids."""
    with Peer(address) as peer:
        for number, code in enumerate(codes):
            line = {"op": "put", "id": number, "queue": QUEUE, "args": [f"exit {code}"]}
            peer.send(json.dumps(line).encode() + b"\n")
        answers = [json.loads(peer.line()) for _ in codes]
    by_id = {answer["id"]: answer["exit-code"] for answer in answers}
    return [by_id[number] for number in range(len(codes))]


def client_in_words(address: str, codes: list[int]) -> list[int]:
    """All requests at once on one connection; their ends are told later, by job."""
    with Peer(address) as peer:
        for code in codes:
            peer.send(f"put {QUEUE} 'exit {code}'\n".encode())
        jobs: list[str] = []
        ended: dict[str, int] = {}
        while len(ended) < len(codes):
            line = peer.line()
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
#: The original's frontend understands bare JSON only.
PAIRINGS = [
    *((our_frontend, client, backend) for client in CLIENTS_OF for backend in BACKENDS),
    *((original_frontend, "original-client", backend) for backend in ("our-backend-bare", "original-backend")),
]


@pytest.mark.parametrize(("frontend", "client", "backend"), PAIRINGS)
def test_pairing(start_program: StartProgram, frontend: Start, client: str, backend: str) -> None:
    """Several clients at once are each told the exit codes of their own requests."""
    clients_at, backends_at = frontend(start_program)
    codes = [[(17 * place + number) % 100 for number in range(REQUESTS)] for place in range(CLIENTS)]
    with BACKENDS[backend](start_program, backends_at):
        told = at_once([partial(CLIENTS_OF[client], clients_at, some) for some in codes])
    assert told == codes
