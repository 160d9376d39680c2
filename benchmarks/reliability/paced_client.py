"""A client of the workload port that keeps a pace, and counts what it lost: an answer, or the end of a workload."""

from __future__ import annotations

import socket
from contextlib import suppress
from time import perf_counter, sleep

#: How long a workload may take to end after the last one was started.
_END_SECONDS = 20.0


def keep_pace(address: str, seconds: float, interval: float) -> dict[str, float]:
    """Start workloads of a second at a pace, and wait for the ends of all.

    :param address: HOST:PORT of a workload port.
    :returns: how many were started, how many were lost (not accepted, or without a good end within 20 s), and the
        p50, p99 and worst time to the answer, which counts from when the request was due.
    """
    host, _, port = address.rpartition(":")
    answers: list[float] = []
    ended: set[str] = set()
    accepted = number = 0
    with suppress(TimeoutError), socket.create_connection((host, int(port)), timeout=_END_SECONDS) as connection:
        lines = connection.makefile("rb")
        due, until = perf_counter(), perf_counter() + seconds
        while due < until:
            sleep(max(0.0, due - perf_counter()))
            number += 1
            connection.sendall(f"run paced-{number} devices=dgx-0/0 profile=10:0:1 repeat=1\n".encode())
            while (line := lines.readline()).startswith(b"ended "):
                _note_end(line, ended)
            accepted += line.startswith(b"ok")
            answers.append(perf_counter() - due)
            due += interval
        while len(ended) < accepted and (line := lines.readline()):
            _note_end(line, ended)
    answers.sort()
    return {
        "requests": number, "lost": number - len(ended), "p50": answers[len(answers) // 2],
        "p99": answers[len(answers) * 99 // 100], "worst": answers[-1],
    }  # fmt: skip


def _note_end(line: bytes, ended: set[str]) -> None:
    _, name, code, *_ = line.decode().split()
    if code == "0":
        ended.add(name)
