"""Real programs in tests: started in their own process group, watched without sleeping, always ended."""

from __future__ import annotations

import configparser
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

import pytest

from tests.support.paths import ROOT

#: The checkout.
#: Set where a skipped test of real programs would hide something: continuous integration.
REQUIRE_REAL = "FAKEDEV_REQUIRE_REAL"
#: However slow the machine: a program that has not answered by then never will.
PATIENCE_SECONDS = 60.0
_LOOK_AGAIN_SECONDS = 0.02


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


class Program:
    """A real program that runs: its output is read all the time, and it is ended with its whole group."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None, folder: str | Path | None = None
    ) -> None:
        self.command = list(command)
        self._changed = threading.Condition()
        self._texts = {"stdout": "", "stderr": ""}
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment() if environment is None else dict(environment),
            cwd=folder,
            start_new_session=True,
        )
        self._readers = [
            threading.Thread(target=self._read, args=(name, stream), daemon=True)
            for name, stream in (("stdout", self.process.stdout), ("stderr", self.process.stderr))
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def stdout(self) -> str:
        """What it wrote to standard output until now."""
        return self._texts["stdout"]

    @property
    def stderr(self) -> str:
        """What it wrote to standard error until now."""
        return self._texts["stderr"]

    def wait_for_text(self, text: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait until it has written a line that holds a text; that line."""
        self._wait_until(lambda: self._line_with(text) is not None, f"the text {text!r}", seconds)
        return self._line_with(text) or ""

    def wait_for_file(self, path: str | Path, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait until a file with something in it is there (a ready file, a socket); its text if it has one."""
        self._wait_until(lambda: _is_there(Path(path)), f"the file {path}", seconds)
        return Path(path).read_text(encoding="utf-8") if Path(path).is_file() else ""

    def wait(self, seconds: float = PATIENCE_SECONDS) -> int:
        """Wait until it ends; its exit code, as the shell has it (128 + the signal that ended it)."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self} did not end within {seconds} s{self._said()}")
        for reader in self._readers:
            reader.join(seconds)
        return code if code >= 0 else 128 - code

    def stop(self, number: int = signal.SIGTERM, seconds: float = PATIENCE_SECONDS) -> int:
        """Send it a signal and wait until it ends; its exit code."""
        self.process.send_signal(number)
        return self.wait(seconds)

    def stop_impatiently(self, number: int = signal.SIGTERM, seconds: float = PATIENCE_SECONDS) -> int:
        """Send it a signal again and again until it has ended; its exit code."""
        last = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < last:
            self.process.send_signal(number)
            time.sleep(0.002)
        return self.wait(seconds)

    def kill(self) -> None:
        """End it and everything it started, in any state."""
        # The group outlives its leader when a child of it does; the id is only free when all have gone.
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for reader in self._readers:
            reader.join(PATIENCE_SECONDS)

    def __str__(self) -> str:
        return " ".join(self.command)

    def _read(self, name: str, stream: IO[bytes]) -> None:
        with stream:
            while data := os.read(stream.fileno(), 65536):
                with self._changed:
                    self._texts[name] += data.decode("utf-8", "replace")
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def _wait_until(self, arrived: Callable[[], bool], what: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        with self._changed:
            while not arrived():
                ended = self.process.poll() is not None and not any(reader.is_alive() for reader in self._readers)
                if (ended and not arrived()) or time.monotonic() > deadline:
                    state = f"ended with {self.process.returncode}" if ended else f"runs, but after {seconds} s"
                    pytest.fail(f"{self} {state} without {what}{self._said()}")
                self._changed.wait(_LOOK_AGAIN_SECONDS)

    def _line_with(self, text: str) -> str | None:
        for written in self._texts.values():
            # A line that has not ended may lack its rest.
            for line in written.splitlines(keepends=True):
                if text in line and line.endswith("\n"):
                    return line.rstrip("\r\n")
        return None

    def _said(self) -> str:
        return f"\n--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}"


def _is_there(path: Path) -> bool:
    try:
        return path.is_socket() or path.stat().st_size > 0
    except OSError:
        return False
