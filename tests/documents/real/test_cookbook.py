"""The tasks of doc/cookbook.md, each in a folder of its own, as they are written there."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Final

import pytest
import pytest_twisted

from tests.support.documents.checkout import Checkout
from tests.support.documents.snippets import Command, commands_in
from tests.support.paths import ROOT
from tests.support.programs.asynchronous import eventually
from tests.support.programs.processes import StartAsync, require_program, run

pytestmark = pytest.mark.real

TEXT: Final = (ROOT / "doc" / "cookbook.md").read_text(encoding="utf-8")
TASKS: Final = dict(re.findall(r"^## (.+?)$\n(.*?)(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE))
#: Programs that a task needs besides those that its commands begin with.
NEEDED: Final = {
    "Test my alert rule for XID 79": ("promtool", "prometheus"),
    "Run nvidia-smi and nvitop without a GPU": ("cc",),
}
#: These need a cluster.
NOT_RUN: Final = ("kubectl ", "etc/kubernetes/")


#: The addresses of this test, of programs whose defaults the page uses.
ADDRESSES: Final = {
    "fakedev-frontend": "-caddr localhost:9997 -waddr localhost:9999 -maddr localhost:9998",
    "fakedev-client": "-caddr localhost:9996 -faddr localhost:9997",
    "fakedev-backend": "-faddr localhost:9999",
}


def is_shown(command: Command, printed: str) -> bool:
    """Whether a command printed what the page shows: `...` stands for anything, alone on a line for any lines."""
    lines = (
        r"(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + "\n"
        for line in command.shown
    )
    return re.fullmatch("".join(lines), re.sub(r"\n+\Z", "\n", printed)) is not None


class Kitchen(Checkout):
    """The folder of one task.

    :ivar settings: what its commands have set in their shell.
    """

    def __init__(self, folder: Path, start_async: StartAsync) -> None:
        super().__init__(folder, start_async)
        python = folder / ".venv" / "bin" / "python"
        python.write_text(f"#!/bin/sh\nexec '{sys.executable}' \"$@\"\n")
        python.chmod(0o755)
        (folder / "old").mkdir()
        for file in (ROOT / "tests" / "data").glob("original-*.json"):
            shutil.copy(file, folder / "old")
        self.environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment["XDG_CACHE_HOME"] = str(folder / "cache")
        self.environment["FAKEDEV_URL"] = f"http://127.0.0.1:{self.ports[9400]}"
        self.settings = ""

    async def take(self, command: Command) -> None:
        """Do what a command of the page does; it prints what the page shows."""
        name = command.text.removeprefix("cat ")
        program = command.text.split()[0].removeprefix(".venv/bin/")
        if name != command.text:
            content = self.written_as("\n".join([*command.shown, ""]))
            # A week of the year shows the same.
            (self.folder / name).write_text(content.replace("365d", "7d"))
        elif program == "eval":
            self.settings += f"{command.text}\n"
        elif " serve " in command.text:
            options = f"--port {self.ports[9400]} --ready-file ready.json"
            service = self.start(f"{command.text.rstrip(' &')} {options}")
            await service.wait_for_file(self.folder / "ready.json")
        elif command.text.endswith("&"):
            words, options = command.text.partition(" "), ADDRESSES.get(program, "")
            self.start(f"{words[0]} {options} {words[2]}")
        elif program == "curl":  # what has just started answers in a moment
            await eventually(lambda: self.is_answered(command), str(command))
        else:
            printed = await self.printed(command)
            assert is_shown(command, printed), f"{command} printed {printed}"

    async def printed(self, command: Command) -> str:
        """What a command prints to standard output, in whole lines."""
        text = f"{self.settings}{self.written_as(command.text)}"
        ended = await run(self._start_async, "sh", "-c", text, folder=self.folder, environment=self.environment)
        return ended.stdout if ended.stdout.endswith("\n") or not ended.stdout else f"{ended.stdout}\n"

    async def is_answered(self, command: Command) -> bool:
        """Whether it prints what the page shows by now."""
        return is_shown(command, await self.printed(command))


@pytest.mark.parametrize("task", TASKS)
@pytest_twisted.ensureDeferred
async def test_task(task: str, tmp_path: Path, start_async: StartAsync) -> None:
    """Every command of a task prints what the page shows."""
    found = [command for command in commands_in("cookbook.md", TASKS[task]) if not command.text.startswith(NOT_RUN)]
    programs = {command.text.split()[0] for command in found} & {"curl", "java", "prometheus"}
    for name in (*sorted(programs), *NEEDED.get(task, ())):
        require_program(name)
    kitchen = Kitchen(tmp_path, start_async)
    for command in found:
        await kitchen.take(command)


def test_there_are_twelve() -> None:
    """As the page says."""
    assert len(TASKS) == 12
