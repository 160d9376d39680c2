"""kill -9 at random instants under load: how soon the service serves again. For its files see storage.py."""

from __future__ import annotations

import os
import random
import signal
import socket
import tempfile
import threading
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from statistics import median
from time import perf_counter

from fleets import dcgm
from machine_stalls import FREE_SHARE, stalls
from programs import SERVE, Program
from results import Section, Target

_DEVICES = 64
#: How long a service may live before it is killed, drawn from zero on.
_MAX_LIFE_SECONDS = 1.5


def kills(is_short: bool) -> Section:
    """Kill a service again and again, and start it in the same place."""
    count = 6 if is_short else 100
    taken = stalls()["share"]
    is_judged = not is_short and taken <= FREE_SHARE
    section = Section(
        "kill -9",
        f"""
How soon a killed service serves again: {_DEVICES} H100s with a journal and a record under load. A client of a UNIX
socket starts workloads of a second, one after the other, another one scrapes. The service is killed by
SIGKILL after a random time of up to {_MAX_LIFE_SECONDS} s of service, and started again on the same addresses with the
same journal and a new record: {count} times. *Up* is the time until it has written its ready file and has answered a
scrape.
Times by the clock are judged only on a machine that is free: where other programs take its cores away for at most
{FREE_SHARE:.0%} of the time, measured just before.
""",
        ["measured"],
    )
    draw = random.Random(25)
    up_seconds: list[float] = []
    cpu_seconds: list[float] = []
    with tempfile.TemporaryDirectory(prefix="fakedev-bench-") as name:
        folder = Path(name)
        config = folder / "config.yaml"
        with socket.create_server(("127.0.0.1", 0)) as free:
            web = f"127.0.0.1:{free.getsockname()[1]}"
        text = dcgm(_DEVICES, f'"{web}"').replace("{folder}", name)
        config.write_text(text + f"journal: {{file: {name}/journal.jsonl}}\n")
        for number in range(count + 1):
            record = folder / f"record-{number}.jsonl"
            (folder / "ready.json").unlink(missing_ok=True)
            began = perf_counter()
            program = Program(["-c", SERVE, "serve", "--config", str(config), "--ready-file",
                               str(folder / "ready.json"), "--record", str(record)], folder)  # fmt: skip
            program.get("/nodes/dgx-1/metrics")
            if number:
                up_seconds.append(perf_counter() - began)
                cpu_seconds.append(program.cpu_seconds())
            _serve_and_kill(program, draw.uniform(0, _MAX_LIFE_SECONDS))
    soon, worst = median(up_seconds), max(up_seconds)
    limit = Target(2, unit=" s")
    section.add("median time until it is up", f"{soon:.2f} s", judged=soon if is_judged else None, target=limit)
    section.add("worst time until it is up", f"{worst:.2f} s", judged=worst if is_judged else None, target=limit)
    section.add("the same in processor time", f"{max(cpu_seconds):.2f} s", judged=max(cpu_seconds), target=limit)
    section.text += f"\nBefore it other programs took a core away for {taken:.0%} of the time."
    return section


def _serve_and_kill(program: Program, seconds: float) -> None:
    """Load a service for some seconds and kill it."""
    clients = [
        threading.Thread(target=_start_workloads, args=(program.ready["workloads"][0],)),
        threading.Thread(target=_scrape, args=(program,)),
    ]
    for client in clients:
        client.start()
    clients[0].join(seconds)
    os.kill(program.pid, signal.SIGKILL)
    for client in clients:
        client.join()
    program.end()


def _start_workloads(address: str) -> None:
    """Start short workloads until the service has gone."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        lines = connection.makefile("rb")
        number = 0
        while True:
            connection.sendall(f"run w{number} devices=dgx-0/{number % 8} profile=50:0:1 repeat=1\n".encode())
            while (line := lines.readline()).startswith(b"ended"):
                pass
            if not line.startswith(b"ok"):
                return
            number += 1


def _scrape(program: Program) -> None:
    with suppress(OSError, HTTPException):
        while True:
            program.get()
