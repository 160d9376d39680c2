"""Ports without file descriptors: they wait, the log has it once, and nothing spins."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher
from zope.interface.verify import verifyObject

from fakedev.runtime.listening import (
    OVER_SECONDS,
    RETRY_SECONDS,
    SPARE,
    CarefulPort,
    DescriptorShortage,
    lowest_free_descriptor,
)
from fakedev.schema.files import Files
from tests.support.application import application
from tests.support.wire.http_wire import answers

LIMIT = resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class Port:
    """A port of Twisted's kind with so many waiting connections; each takes a descriptor, from the lowest on."""

    numberAccepts = 1

    def __init__(self, waiting: int, free: int) -> None:
        self.waiting = waiting
        self.free = free
        self.accepts = 0

    def doRead(self) -> None:
        """Accept as many as numberAccepts says, as Twisted does."""
        accepted = min(self.numberAccepts, self.waiting)
        assert accepted <= self.free, "Twisted would close connections"
        self.waiting -= accepted
        self.free -= accepted
        self.accepts += accepted
        self.numberAccepts = self.numberAccepts + 20 if accepted == self.numberAccepts else max(1, accepted)

    def fileno(self) -> int:
        """Its descriptor."""
        return 3

    def stopReading(self) -> None:
        """Leave its place in the reactor to the other reader."""


class Reactor(Clock):
    """The readers of a reactor, and its time."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: list[CarefulPort] = []

    def addReader(self, reader: CarefulPort) -> None:
        """Twisted's."""
        self.readers.append(reader)

    def removeReader(self, reader: CarefulPort) -> None:
        """Twisted's."""
        self.readers = [other for other in self.readers if other is not reader]

    def turn(self) -> None:
        """Connections wait: all that read do so."""
        for reader in self.readers:
            reader.doRead()


def careful(
    port: Port, reactor: Reactor, shortage: DescriptorShortage, make_room: Callable[[], bool] = bool
) -> CarefulPort:
    """Let a port look before it accepts; its free descriptors are those below the limit."""

    def lowest(_: int) -> int | None:
        return LIMIT - port.free if port.free else None

    return CarefulPort(port, reactor, shortage, make_room, SPARE, lowest)


class Errors:
    """The entries of level error while a test runs."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, event: dict[str, object]) -> None:
        """Note an entry."""
        if "descriptors" in str(event.get("problem")):
            self.texts.append(str(event["problem"]))


@pytest.fixture()
def errors():
    """What is logged about descriptors."""
    found = Errors()
    globalLogPublisher.addObserver(found)
    yield found
    globalLogPublisher.removeObserver(found)


def test_enough_descriptors(errors: Errors) -> None:
    """All that wait are accepted, some in each turn."""
    reactor, shortage, port = Reactor(), DescriptorShortage(), Port(50, 1000)
    verifyObject(IReadDescriptor, careful(port, reactor, shortage))
    turns = 0
    while port.waiting:
        reactor.turn()
        turns += 1
    assert (port.accepts, turns, shortage.postponed, errors.texts) == (50, 3, 0, [])


def test_too_few_descriptors(errors: Errors) -> None:
    """The port leaves some for others, stops to read, and looks again; the log has it once."""
    reactor, shortage, port = Reactor(), DescriptorShortage(), Port(50, SPARE + 7)
    careful(port, reactor, shortage)
    reactor.turn()
    assert (port.accepts, port.free, reactor.readers) == (7, SPARE, [])
    for _ in range(20):
        assert not reactor.readers
        reactor.advance(RETRY_SECONDS)
        assert reactor.readers
        reactor.turn()
    assert (port.accepts, shortage.postponed) == (7, 21)
    assert errors.texts == ["no file descriptors are left for connections: new ones wait"]
    assert shortage.problem(reactor.seconds()) == errors.texts[0]
    port.free += 10
    reactor.advance(RETRY_SECONDS)
    reactor.turn()
    assert port.accepts == 17
    reactor.advance(OVER_SECONDS + 1)
    assert shortage.problem(reactor.seconds()) is None
    reactor.turn()
    assert len(errors.texts) == 2


def test_no_descriptor_at_all(errors: Errors) -> None:
    """Twisted is not called: it would close connections, and spin when it cannot."""
    reactor, port = Reactor(), Port(5, 0)
    careful(port, reactor, DescriptorShortage())
    reactor.turn()
    assert (port.accepts, reactor.readers, len(errors.texts)) == (0, [], 1)


def test_a_connection_makes_room() -> None:
    """A port that closes a silent peer looks again soon."""
    reactor, port = Reactor(), Port(3, SPARE)

    def make_room() -> bool:
        port.free += 1
        return True

    careful(port, reactor, DescriptorShortage(), make_room)
    for _ in range(3):
        reactor.turn()
        reactor.advance(0.01)
    reactor.turn()
    assert port.accepts == 3


def test_a_closed_port_is_left_alone() -> None:
    """It does not read again."""
    reactor, port = Reactor(), Port(3, 0)
    guard = careful(port, reactor, DescriptorShortage())
    reactor.turn()
    guard.close()
    reactor.advance(1)
    assert not reactor.readers


@pytest.mark.slow
def test_the_lowest_descriptor() -> None:
    """In a process that uses them up."""
    program = (
        "import os, resource\n"
        "from fakedev.runtime.listening import lowest_free_descriptor\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))\n"
        "found = []\n"
        "while (lowest := lowest_free_descriptor(1)) is not None:\n"
        "    found.append(lowest == os.dup(1))\n"
        "assert all(found) and 20 < len(found) < 40, found\n"
        "os.close(17)\n"
        "assert lowest_free_descriptor(1) == 17\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300, env={**os.environ, "PYTHONPATH": "."})


def test_a_bad_descriptor_is_an_error() -> None:
    """It is no shortage."""
    with pytest.raises(OSError, match="Bad file descriptor"):
        lowest_free_descriptor(LIMIT - 1)


def test_ready_and_metrics() -> None:
    """/readyz says why, and the metrics count; /health is about the simulation."""
    with application() as app:
        assert app.get("/readyz").status == 200
        listeners = app.service.getServiceNamed("listeners")
        listeners.shortage.note(app.reactor.seconds())
        answer = app.get("/readyz")
        assert (answer.status, b"no file descriptors are left" in answer.body) == (503, True)
        assert app.get("/health").status == 200
        assert b"fakedev_accepts_postponed_total 1.0" in app.get("/-/metrics").body


def no_descriptors(*_: object, **__: object) -> NoReturn:
    """Open nothing."""
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_reload_without_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """503 with the reason, no traceback; the old configuration stays, and a later reload is good."""
    with application() as app:
        monkeypatch.setattr("tests.support.application.load", no_descriptors)
        answer = app.ask("POST", "/-/reload")
        assert (answer.status, b"no file descriptors are left: try again later" in answer.body) == (503, True)
        monkeypatch.undo()
        peer = app.http()
        peer.send(b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        app.tick()
        peer.read()
        assert answers(peer.transport.value())[0].status == 200


def test_a_file_without_descriptors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is no fault of the configuration that a file cannot be opened."""
    path = tmp_path / "f.yaml"
    path.write_text("version: 1\n")
    monkeypatch.setattr("builtins.open", no_descriptors)
    with pytest.raises(OSError, match="Too many open files"):
        Files(environ={}).read(str(path))
