"""Commands end with their program, whatever ends it; no process is left that could keep its output open."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessTerminated
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from fakedev.runtime.processes import GroupWatchdog
from tests.support.deferreds import within
from tests.support.programs.processes import StartAsync, console

pytestmark = pytest.mark.real

#: A command that ignores signals, with a child and a grandchild that do, too. They hold standard output open.
STUBBORN = """trap '' TERM HUP INT; (sleep 1000 & echo running; sleep 1000) & wait; sleep 1000"""
SETSID = shutil.which("setsid") or "setsid"


@pytest_twisted.ensureDeferred
async def test_a_killed_backend(start_async: StartAsync, tmp_path: Path) -> None:
    """After SIGKILL its command and all that this started end: only then is the end of their output here."""
    script = tmp_path / "command"
    script.write_text(f"#!/bin/sh\n{STUBBORN}\n")
    script.chmod(0o755)
    program = start_async([*console("fakedev-backend"), "-once", "-verbose", str(script)], folder=tmp_path)
    await program.wait_for_text("running")
    await program.wait_for_text("runs as process")  # the watchdog has been told
    os.kill(program.pid, signal.SIGKILL)
    assert await program.wait() == 128 + signal.SIGKILL


class Command(ProcessProtocol):  # type: ignore[misc]
    """A command in a group of its own.

    :ivar ended: fires with the number of the signal that ended it.
    """

    def __init__(self) -> None:
        self.running: Deferred[None] = Deferred()
        self.ended: Deferred[int] = Deferred()
        words = [SETSID, "/bin/sh", "-c", "echo running; exec sleep 1000"]
        self.pid: int = reactor.spawnProcess(self, SETSID, words, childFDs={1: "r"}).pid

    def outReceived(self, data: bytes) -> None:
        """It has made its group (called by Twisted)."""
        self.running.callback(None)

    def processEnded(self, reason: Failure) -> None:
        """It has ended (called by Twisted)."""
        assert reason.check(ProcessTerminated)
        self.ended.callback(reason.value.signal)


async def commands(count: int) -> list[Command]:
    """Commands that run."""
    made = [Command() for _ in range(count)]
    for command in made:
        await within(command.running)
    return made


@pytest_twisted.ensureDeferred
async def test_groups_that_have_ended_are_left_alone() -> None:
    """Their numbers may have been given to others."""
    removed, first, last = await commands(3)
    watchdog = GroupWatchdog(reactor, SETSID)
    watchdog.start()
    for command in (first, removed, last):
        watchdog.add(command.pid)
    watchdog.remove(removed.pid)
    os.close(watchdog._pipe)  # as the kernel does when the program ends
    watchdog._pipe = -1
    assert await within(first.ended) == signal.SIGKILL
    assert await within(last.ended) == signal.SIGKILL
    assert not removed.ended.called
    os.killpg(removed.pid, signal.SIGTERM)
    assert await within(removed.ended) == signal.SIGTERM


@pytest_twisted.ensureDeferred
async def test_a_watchdog_that_was_killed() -> None:
    """The next group starts another one, which gets all groups."""
    first, last = await commands(2)
    watchdog = GroupWatchdog(reactor, SETSID)
    watchdog.start()
    watchdog.add(first.pid)
    ended: Deferred[None] = Deferred()
    protocol = watchdog._process.proto
    protocol._ended = lambda told=protocol._ended: (told(), ended.callback(None))
    watchdog._process.signalProcess("KILL")
    await within(ended)
    watchdog.start()
    watchdog.add(last.pid)
    os.close(watchdog._pipe)
    watchdog._pipe = -1
    for command in (first, last):
        assert await within(command.ended) == signal.SIGKILL
