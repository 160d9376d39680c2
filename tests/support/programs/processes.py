"""Real programs in tests: started in a group of their own, awaited on the real reactor, always ended."""

from __future__ import annotations

import configparser
import os
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import defer, reactor
from twisted.internet.inotify import INotify
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import deferLater
from twisted.python.failure import Failure
from twisted.python.filepath import FilePath

from tests.support.deferreds import PATIENCE_SECONDS
from tests.support.paths import ROOT

#: Set where a skipped test of real programs would hide something: continuous integration.
REQUIRE_REAL = "FAKEDEV_REQUIRE_REAL"


def skip_or_fail(reason: str) -> None:
    """Skip the running test, or fail it where real tests are required."""
    if os.environ.get(REQUIRE_REAL):
        pytest.fail(f"{REQUIRE_REAL} is set, but {reason}", pytrace=False)
    pytest.skip(reason)


def require_program(name: str) -> str:
    """The path of a program of the system; without it the test is skipped, or fails where real tests are required."""
    path = shutil.which(name)
    if path is None:
        skip_or_fail(f"the program {name} is not installed")
    assert path is not None
    return path


def console(name: str) -> list[str]:
    """The command that starts one of our console programs from this checkout, installed or not."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    lines = parser["options.entry_points"]["console_scripts"].split("\n")
    scripts = dict(line.replace(" ", "").split("=") for line in lines if line)
    module, function = scripts[name].split(":")
    start = f"import sys; sys.argv[0] = {name!r}; from {module} import {function}; sys.exit({function}())"
    return [sys.executable, "-c", start]


def twistd() -> list[str]:
    """The command that starts this environment's twistd."""
    path = shutil.which("twistd", path=os.path.dirname(sys.executable)) or shutil.which("twistd")
    if path is None:
        skip_or_fail("twistd is not installed beside this Python")
    assert path is not None
    return [sys.executable, path]


def clean_environment(**more: str) -> dict[str, str]:
    """This process's environment with the checkout on the path, and without what would configure our programs."""
    dropped = ("NODE_NAME", "POD_NAME", "POD_NAMESPACE", "CONTAINER_NAME", "RUNTIME_DIRECTORY", "NOTIFY_SOCKET")
    kept = {name: value for name, value in os.environ.items() if name not in dropped and not name.startswith("FAKEDEV")}
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **more}


class Changes:
    """Something that events change, and those who wait until it is as they want."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Callable[[], bool], defer.Deferred[None]]] = []

    def changed(self) -> None:
        """Look again at what each waits for."""
        for waiting in list(self._waiting):
            is_so, arrived = waiting
            if waiting in self._waiting and is_so():
                self._waiting.remove(waiting)
                arrived.callback(None)

    async def until(self, is_so: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> bool:
        """Wait until a condition holds; False when it does not within the time."""
        if is_so():
            return True
        arrived: defer.Deferred[None] = defer.Deferred()
        waiting = (is_so, arrived)
        self._waiting.append(waiting)
        arrived.addTimeout(seconds, reactor)
        try:
            await arrived
        except defer.TimeoutError:
            self._waiting.remove(waiting)
            return False
        return True


class AsyncProgram(ProcessProtocol):  # type: ignore[misc]
    """A real program that runs in a process group of its own; it ends with the test (see ``start_async``).

    :param descriptors: what it has besides, or instead of, nothing as its input and pipes for its output: the number
        of an open file, ``"r"`` for a pipe that the test reads, ``"w"`` for one that it writes to.
    :ivar stdout: what it wrote to standard output until now.
    :ivar stderr: what it wrote to standard error until now.
    :ivar exit_code: as the shell has it (128 + the signal that ended it); None while it runs.
    """

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None,
        folder: str | Path | None = None, descriptors: Mapping[int, int | str] | None = None,
    ) -> None:  # fmt: skip
        self.command = list(command)
        self._bytes = {1: bytearray(), 2: bytearray()}
        self.exit_code: int | None = None
        self._changes = Changes()
        setsid = shutil.which("setsid")
        assert setsid is not None
        with open(os.devnull, "rb") as nothing:
            self._process = reactor.spawnProcess(
                self,
                setsid,
                ["setsid", *self.command],
                clean_environment() if environment is None else dict(environment),
                None if folder is None else str(folder),
                childFDs={0: nothing.fileno(), 1: "r", 2: "r", **(descriptors or {})},
            )

    def connectionMade(self) -> None:
        """It has begun (called by Twisted, which forgets its number when it ends, maybe at once)."""
        self.pid: int = self.transport.pid

    @property
    def stdout(self) -> str:
        """What it wrote to standard output until now."""
        return self._bytes[1].decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """What it wrote to standard error until now."""
        return self._bytes[2].decode("utf-8", "replace")

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        """Keep what it wrote (called by Twisted)."""
        self._bytes[childFD] += data
        self._changes.changed()

    def processEnded(self, reason: Failure) -> None:
        """It has ended, and all that it wrote is here (called by Twisted)."""
        value = reason.value
        self.exit_code = 128 + value.signal if value.signal else value.exitCode
        self._changes.changed()

    async def wait_for_text(self, text: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait until it has written a line that holds a text; that line."""
        await self._until(lambda: self._line_with(text) is not None, f"the text {text!r}", seconds)
        return self._line_with(text) or ""

    async def wait_for_lines(self, count: int, seconds: float = PATIENCE_SECONDS) -> list[str]:
        """Wait until it has written so many lines to standard output; these lines."""
        await self._until(lambda: self.stdout.count("\n") >= count, f"{count} lines", seconds)
        return self.stdout.splitlines()[:count]

    async def wait_for_file(self, path: str | Path, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait until a file with something in it is there (a ready file, a socket); its text if it has one."""
        path = Path(path)
        notifier = INotify()
        notifier.startReading()
        try:
            notifier.watch(FilePath(str(path.parent)), callbacks=[lambda *_: self._changes.changed()])
            await self._until(lambda: _is_there(path), f"the file {path}", seconds)
        finally:
            notifier.loseConnection()
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def write(self, text: str | bytes, descriptor: int = 0) -> None:
        """Write to its input, or to another of its descriptors that is a pipe."""
        self.transport.writeToChild(descriptor, text.encode() if isinstance(text, str) else text)

    async def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Wait until it ends; its exit code."""
        if not await self._changes.until(lambda: self.exit_code is not None, seconds):
            pytest.fail(f"{self} did not end within {seconds} s{self._written()}")
        assert self.exit_code is not None
        return self.exit_code

    def send_signal(self, number: int) -> None:
        """Send it a signal; it must run."""
        assert self.exit_code is None, f"{self} has ended{self._written()}"
        os.kill(self.pid, number)

    async def stop(self, number: int = signal.SIGTERM, seconds: float = PATIENCE_SECONDS) -> int:
        """Send it a signal and wait until it ends; its exit code."""
        self.send_signal(number)
        return await self.wait(seconds)

    async def stop_impatiently(self, number: int = signal.SIGTERM) -> int:
        """Send it a signal again and again until it has ended; its exit code."""
        while self.exit_code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)
            await deferLater(reactor, 0.002)
        return self.exit_code

    async def kill(self) -> None:
        """End it and everything it started, in any state."""
        # The group outlives its leader when a child of it does; the id is only free when all are gone.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.exit_code is None:
            with suppress(ProcessLookupError):  # setsid has not made the group yet
                os.kill(self.pid, signal.SIGKILL)
        await self.wait()

    def __str__(self) -> str:
        return " ".join(self.command)

    async def _until(self, is_so: Callable[[], bool], what: str, seconds: float) -> None:
        arrived = await self._changes.until(lambda: is_so() or self.exit_code is not None, seconds)
        if not is_so():
            state = f"ended with {self.exit_code}" if arrived else f"runs, but after {seconds} s"
            pytest.fail(f"{self} {state} without {what}{self._written()}")

    def _line_with(self, text: str) -> str | None:
        for written in (self.stdout, self.stderr):
            # A line that has not ended may lack its rest.
            for line in written.splitlines(keepends=True):
                if text in line and line.endswith("\n"):
                    return line.rstrip("\r\n")
        return None

    def _written(self) -> str:
        return f"\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


#: Starts a program, as ``AsyncProgram(command, ...)`` does.
StartAsync = Callable[..., AsyncProgram]


async def run(start_async: StartAsync, *command: str, text: str | bytes = "", **options: Any) -> AsyncProgram:
    """Start a program, write to its input, close that, and wait for its end."""
    program = start_async(command, descriptors={0: "w"}, **options)
    program.write(text)
    program.transport.closeStdin()
    await program.wait()
    return program


def _is_there(path: Path) -> bool:
    try:
        return path.is_socket() or path.stat().st_size > 0
    except OSError:
        return False
