"""Targets with state: the ports of an application in memory, where a good peer must be served all the time."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from typing import Final

from fakedev.fleet.port import WorkloadPortFactory
from fakedev.fleet.verbs import WORKLOAD_VERBS
from fakedev.lines.grammar import CODES
from fakedev.queues.backend_port import QueueBackendFactory
from fakedev.queues.client_port import QueueClientFactory
from fakedev.queues.verbs import QUEUE_BACKEND_VERBS, QUEUE_CLIENT_VERBS
from tests.fuzz import seeds
from tests.fuzz.engine import Target
from tests.fuzz.grammar_inputs import messages, request
from tests.support.application import AppReactor, LineClient, MemoryApplication, application

_CONFIGURATION: Final = """
version: 1
fleet:
  seed: 7
  pools: [{name: p, nodes: [a, b], device: h100, devices-per-node: 2, identity: dcgm}]
web: ["127.0.0.1:9400"]
workloads:
  listen:
    - {listen: "127.0.0.1:9500", allow: [workloads, faults, clock]}
    - {listen: "127.0.0.1:9501", node: b}
    - {listen: "127.0.0.1:9502", allow: [clock]}
queues: {names: [sleep, other], drain: 10s}
"""
_FACTORIES: Final = {
    "workloads": WorkloadPortFactory, "clients": QueueClientFactory, "backends": QueueBackendFactory,
}  # fmt: skip
_ERROR: Final = re.compile(rb"error (?:" + "|".join(CODES).encode() + rb") [^\x00-\x1f\x7f]*")
_CONTROL: Final = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]")
_NEWS: Final = re.compile(rb"(?:ended|withdrawn|job|advancing) [^\x00-\x1f\x7f]*")
_LINES: Final = re.compile(rb"ok ([0-9]+) lines")


def pieces(data: bytes) -> Iterator[bytes]:
    """The same bytes at once, one by one, or in two pieces: the bytes decide."""
    choice = zlib.crc32(data)
    if choice % 3 == 0 and len(data) < 3000:
        yield from (data[place : place + 1] for place in range(len(data)))
    elif choice % 3 == 1:
        cut = choice // 3 % (len(data) + 1)
        yield from (data[:cut], data[cut:])
    else:
        yield data


def check_answer(answer: bytes) -> str:
    """Whether an answer of a line port has the form of the protocol: words, JSON lines or bare JSON; its kind."""
    if not answer or answer in (b"0", b"1"):
        return answer.decode()
    answer.decode("utf-8")
    lines = answer.split(b"\n")
    if answer.startswith(b"{\n"):
        assert isinstance(json.loads(answer), dict), answer[:300]
        return answer[:500].decode()
    if answer.startswith(b"{"):
        for line in lines:
            if line:
                assert isinstance(json.loads(line), dict), line[:300]
        return answer[:500].decode()
    if lines[-1] in (b"0", b"1"):
        lines[-1] = b""
    assert lines[-1] == b"", f"no LF at the end: {answer[-300:]!r}"
    assert not _CONTROL.search(answer), answer[:300]
    left = 0
    for line in lines[:-1]:
        if left:
            left -= 1
        elif match := _LINES.fullmatch(line):
            left = int(match[1])
        else:
            known = line == b"ok" or line.startswith((b"ok ", b"{")) or _ERROR.fullmatch(line) or _NEWS.fullmatch(line)
            assert known, f"no answer of the protocol: {line[:300]!r}"
        assert len(line) < 70_000
    assert not left, f"{left} lines are missing"
    return answer[:500].decode("utf-8", "replace")


class _Turns:
    """The application's reactor for its peers: a clock would run an advance of the fleet to its end in one call."""

    def __init__(self, reactor: AppReactor) -> None:
        self._reactor = reactor
        self.callLater = reactor.callLater

    def advance(self, seconds: float) -> None:
        """Some reactor turns after so many seconds."""
        self._reactor.rightNow += seconds
        for _ in range(5):
            self._reactor.turn()


class _Ports:
    """An application, and a good peer."""

    def __init__(self) -> None:
        self._context = application(_CONFIGURATION)
        self.app: MemoryApplication = self._context.__enter__()
        # Work is done in slices of time, and the clock of the memory stands still.
        self.app.slow_down()
        self.reactor = _Turns(self.app.reactor)
        self._inputs = 0

    def stop(self) -> None:
        """The service must end in its time."""
        self._context.__exit__(None, None, None)

    def _turns(self) -> None:
        """Some reactor turns, and now and then a tick."""
        self._inputs += 1
        self.reactor.advance(0 if self._inputs % 10 else 1)


class LinePort(_Ports):
    """A line port.

    :param kind: ``workloads``, ``clients`` or ``backends``.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind
        self._good = self._connect(0)
        self._help = self._good.say("help")

    def _connect(self, place: int) -> LineClient:
        factories = self.app.factories(_FACTORIES[self._kind])
        return LineClient(factories[place % len(factories)], self.reactor)

    def run(self, data: bytes) -> str:
        """Send it on a new connection; the good peer is served meanwhile."""
        bad = self._connect(zlib.crc32(data) % 3)
        for piece in pieces(data):
            bad.send(piece)
        assert self._good.say("help") == self._help
        if data[-1:] != b"\n":
            bad.send(b"\n")
        self._turns()
        answer = bad.heard()
        kind = check_answer(answer)
        if not bad.closed and not bad.protocol.transport.disconnecting:
            if zlib.crc32(data) % 2:
                bad.end_input()
                self._turns()
            if not bad.closed:
                bad.leave()
        assert self._good.say("help") == self._help
        return kind


class HttpPort(_Ports):
    """The HTTP address."""

    def run(self, data: bytes) -> str:
        """Send it on a new connection; another one gets its answer meanwhile."""
        bad = self.app.http()
        for piece in pieces(data):
            if not bad.closed:
                bad.send(piece)
        self._turns()
        bad.read()
        answer = bad.transport.value()
        if answer:
            status = re.match(rb"HTTP/1\.[01] ([1-5][0-9][0-9]) [A-Z][^\r\n]*\r\n", answer)
            assert status, answer[:300]
            assert not re.search(rb"^HTTP/1\.[01] 500 ", answer, re.MULTILINE), answer[:2000]
        bad.leave()
        assert self.app.get("/health").status in (200, 503)
        assert self.app.get("/api/v1/nodes/a").status == 200
        return answer[:2000].decode("latin-1")


def _lines() -> list[bytes]:
    lines = [line + b"\n" for line in (*seeds.protocol_lines(), *seeds.MESSAGES)]
    return [*lines, b"".join(lines[:20]), b"".join(lines[20:60])]


TARGETS: Final = (
    *(
        Target(f"{name} port", lambda kind=kind: LinePort(kind), _lines, seeds.line_words, rounds=200,  # type: ignore[misc]
               fresh=messages(verbs))
        for name, kind, verbs in (
            ("workload", "workloads", WORKLOAD_VERBS),
            ("queue client", "clients", QUEUE_CLIENT_VERBS),
            ("queue backend", "backends", QUEUE_BACKEND_VERBS),
        )
    ),
    Target("HTTP port", HttpPort, seeds.requests, lambda: (*seeds.words_of(seeds.requests()), *seeds.line_words()),
           fresh=request),
)
