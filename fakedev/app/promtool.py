"""promtool, which comes with Prometheus: found on the PATH, run, and told in its words what is wrong."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple

#: How many processes of promtool make blocks at once.
MOST_AT_ONCE: Final = 2
#: After so long promtool is stopped.
_MAX_SECONDS: Final = 600
#: How many characters of what promtool says an error shows.
SHOWN: Final = 2000


class PromtoolError(Exception):
    """promtool is missing, or refuses what it is given."""

    def __init__(self, text: str, *, is_of_rules: bool = False) -> None:
        super().__init__(text)
        self.is_of_rules = is_of_rules


def promtool() -> str:
    """The path of promtool.

    :raises PromtoolError: without one.
    """
    program = shutil.which("promtool")
    if program is None:
        raise PromtoolError("promtool is needed, which comes with Prometheus, and it is not on the PATH")
    return program


def run_promtool(folder: str, *arguments: str) -> tuple[int, str]:
    """Run promtool in a folder; its exit code and what it said.

    :raises PromtoolError: when it is missing or takes too long.
    """
    program = promtool()
    try:
        done = subprocess.run(
            [program, *arguments], cwd=folder, capture_output=True, timeout=_MAX_SECONDS, check=False, text=True,
            errors="replace",
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        text = f"promtool took more than {_MAX_SECONDS} s, and was stopped: split the rule file"
        raise PromtoolError(text) from None
    return done.returncode, done.stdout + done.stderr


class _Running(NamedTuple):
    process: subprocess.Popen[bytes]
    file: Path
    said: IO[bytes]


class BlockMaker:
    """Makes blocks of OpenMetrics files by promtool, two at once, while the caller goes on.

    :param data: the folder of the blocks; it is created.
    :param removes: whether files are deleted when their blocks are made.
    :ivar made: of how many files blocks have been made.
    :raises PromtoolError: without promtool.
    """

    def __init__(self, data: Path, *, removes: bool = False) -> None:
        self._program = promtool()
        self._data = data
        self._removes = removes
        self._running: deque[_Running] = deque()
        self.made = 0

    def add(self, file: Path) -> None:
        """Make blocks of a file; it waits while two others are in work.

        :raises PromtoolError: when an earlier file is refused, in promtool's words.
        """
        while len(self._running) >= MOST_AT_ONCE:
            self._wait()
        said = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the process has ended
        command = [self._program, "tsdb", "create-blocks-from", "openmetrics", str(file), str(self._data)]
        # In a group of its own: ^C in a terminal must not stop it half-way.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, start_new_session=True
        )
        self._running.append(_Running(process, file, said))

    def finish(self) -> None:
        """Wait for all files.

        :raises PromtoolError: when one is refused.
        """
        while self._running:
            self._wait()

    def stop(self) -> None:
        """Stop what is in work; what is made stays."""
        for each in self._running:
            with suppress(OSError):
                each.process.kill()
            each.process.wait()
            each.said.close()
        self._running.clear()

    def _wait(self) -> None:
        process, file, said = self._running[0]
        code = process.wait()
        self._running.popleft()
        with said:
            if code:
                said.seek(0)
                text = said.read(SHOWN).decode(errors="replace").strip() or f"exit code {code}"
                raise PromtoolError(f"{file}: promtool: {text}")
        self.made += 1
        if self._removes:
            file.unlink(missing_ok=True)
