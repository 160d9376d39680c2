"""kill -9 at random instants under load: how soon the service serves again, and whether its files are whole."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from statistics import median
from time import perf_counter

from fleets import dcgm
from programs import SERVE, Program
from results import Section, Target

_DEVICES = 64
#: How long a service may live before it is killed, drawn from zero on.
_MAX_LIFE_SECONDS = 1.5


def kills(is_short: bool) -> Section:
    """Kill a service again and again, and start it in the same place."""
    count = 8 if is_short else 100
    section = Section(
        "kill -9",
        f"""
`fakedev serve` with {_DEVICES} H100s, a workload port on a UNIX socket, HTTP on a fixed port, a journal and a record,
under load: a client that starts workloads of a second, one after the other, and one that scrapes. It is killed by
SIGKILL after a random time of up to {_MAX_LIFE_SECONDS} s of service, and started again on the same addresses with the
same journal and a new record: {count} times. *Up* is the time until it has written its ready file and has answered a
scrape. Promised is what a client was told: each accepted workload is in the record, each line of journal and record but
an incomplete last one can be read, and `fakedev render` runs the record again. A workload ends with its service.
""",
        ["measured"],
    )
    draw = random.Random(25)
    up_seconds: list[float] = []
    cpu_seconds: list[float] = []
    lost = broken = failed = accepted_count = 0
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
            accepted = _serve_and_kill(program, draw.uniform(0, _MAX_LIFE_SECONDS))
            accepted_count += len(accepted)
            names, is_whole = _record_of(record)
            lost += len(accepted - names)
            broken += not is_whole
            if number % 10 == 0 and not _is_run_again(record):
                failed += 1
        broken += _incomplete_lines(folder / "journal.jsonl")
    soon, worst, none = median(up_seconds), max(up_seconds), Target(0)
    limit = Target(2, unit=" s")
    section.add("median time until it is up", f"{soon:.2f} s", judged=None if is_short else soon, target=limit)
    section.add("worst time until it is up", f"{worst:.2f} s", judged=None if is_short else worst, target=limit)
    section.add("the same in processor time", f"{max(cpu_seconds):.2f} s", judged=max(cpu_seconds), target=limit)
    section.add("accepted workloads that the record lacks", f"{lost} of {accepted_count:,}", judged=lost, target=none)
    section.add("damaged lines of journal and records", str(broken), judged=broken, target=none)
    tried = count // 10 + 1
    section.add("records that cannot be run again", f"{failed} of {tried} tried", judged=failed, target=none)
    return section


def _serve_and_kill(program: Program, seconds: float) -> set[str]:
    """Load a service for some seconds and kill it; the names of the workloads that it has accepted."""
    accepted: set[str] = set()
    clients = [
        threading.Thread(target=_start_workloads, args=(program.ready["workloads"][0], accepted)),
        threading.Thread(target=_scrape, args=(program,)),
    ]
    for client in clients:
        client.start()
    clients[0].join(seconds)
    os.kill(program.pid, signal.SIGKILL)
    for client in clients:
        client.join()
    program.end()
    return accepted


def _start_workloads(address: str, accepted: set[str]) -> None:
    """Start short workloads until the service has gone."""
    with suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        lines = connection.makefile("rb")
        number = 0
        while True:
            name = f"w{number}"
            connection.sendall(f"run {name} devices=dgx-0/{number % 8} profile=50:0:1 repeat=1\n".encode())
            while (line := lines.readline()).startswith(b"ended"):
                pass
            if not line.startswith(b"ok"):
                return
            accepted.add(name)
            number += 1


def _scrape(program: Program) -> None:
    with suppress(OSError, HTTPException):
        while True:
            program.get()


def _record_of(path: Path) -> tuple[set[str], bool]:
    """The names of the workloads that a record starts, and whether all its lines but the last are complete."""
    lines = path.read_bytes().split(b"\n")
    events = _events(lines[:-1])
    started = {str(event["workload"]["name"]) for event in events if isinstance(event.get("workload"), dict)}
    return started, len(events) == len(lines) - 1


def _incomplete_lines(path: Path) -> int:
    lines = path.read_bytes().split(b"\n")
    return len(lines) - 1 - len(_events(lines[:-1]))


def _events(lines: Sequence[bytes]) -> list[dict[str, object]]:
    events = []
    for line in lines:
        with suppress(ValueError):
            events.append(json.loads(line))
    return events


def _is_run_again(record: Path) -> bool:
    """Whether `fakedev render` takes a record."""
    arguments = ["render", "--events", str(record), "--for", "2s", "--node", "dgx-0"]
    done = subprocess.run([sys.executable, "-c", SERVE, *arguments], capture_output=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stderr.decode())
    return not done.returncode
