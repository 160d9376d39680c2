"""The session of doc/kubernetes.md: a cluster without a cluster, typed in as it is written."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import pytest
import pytest_twisted

from tests.support.documents.snippets import Command, page_commands
from tests.support.kube.manifests import program
from tests.support.paths import ROOT
from tests.support.programs.asynchronous import eventually
from tests.support.programs.ports import free_port
from tests.support.programs.processes import (
    AsyncProgram,
    StartAsync,
    clean_environment,
    console,
    require_program,
    run,
    skip_or_fail,
)

pytestmark = [pytest.mark.real, pytest.mark.slow]

FIRST: Final = "tests.support.kube"
#: Commands that change something are typed once.
CHANGES: Final = (" apply ", " patch ", " delete ", " label ", " clean ", " fault ", " clear ")
LAST: Final = "get node node-1 -o jsonpath='{.status.capacity}"


def session() -> list[Command]:
    """The commands of the section, in order."""
    every = page_commands("kubernetes.md")
    first, last = (next(n for n, each in enumerate(every) if part in each.text) for part in (FIRST, LAST))
    return every[first : last + 1]


def is_shown(command: Command, printed: str) -> bool:
    """Whether all that the page shows was printed, in order; ``...`` stands for anything, and numbers may differ."""
    lines = iter(printed.splitlines())
    shown = [each for each in command.shown if each.strip() != "..."]
    return all(any(re.fullmatch(_pattern(each), line.rstrip()) for line in lines) for each in shown)


def _pattern(shown: str) -> str:
    words = re.escape(re.sub(r"\d+", "0", shown.rstrip())).replace(r"\.\.\.", ".*").replace("0", r"\d+")
    return re.sub(r"(\\ )+", r"\\s+", words)


class Desk:
    """The folder in which the session is typed, with what the page says to keep there."""

    def __init__(self, folder: Path, start_async: StartAsync) -> None:
        self.folder = folder
        self.port = free_port()
        self._start_async = start_async
        self._programs: list[AsyncProgram] = []
        kubectl = program("kubectl")
        if kubectl is None:
            skip_or_fail("kubectl is not installed")
        assert kubectl is not None
        text = (ROOT / "doc" / "kubernetes.md").read_text(encoding="utf-8")
        configuration, pods, *_ = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
        (folder / "gpus.yaml").write_text(configuration.replace("9400", str(self.port)), encoding="utf-8")
        (folder / "pods.yaml").write_text(pods, encoding="utf-8")
        python, _, code = console("fakedev")
        programs = folder / ".venv" / "bin"
        programs.mkdir(parents=True)
        for name, line in (("fakedev", f"'{python}' -c \"{code}\""), ("python", f"'{python}'")):
            (programs / name).write_text(f'#!/bin/sh\nexec {line} "$@"\n', encoding="utf-8")
            (programs / name).chmod(0o755)
        path = f"{os.path.dirname(kubectl)}:{os.environ['PATH']}"
        self._environment = clean_environment(
            RUNTIME_DIRECTORY=str(folder / "run"), PATH=path, PYTHONPATH=str(ROOT),
            KUBECONFIG=str(folder / "kubeconfig"),
        )  # fmt: skip

    async def type(self, command: Command) -> None:
        """Type a command; where it shows something, until it does: ticks and requests take their time."""
        text = command.text.replace("PYTHONPATH=. ", "").replace("localhost:9400", f"localhost:{self.port}")
        if text.startswith("export "):
            return
        if text.endswith("&"):
            line = f"exec {text.rstrip(' &')}"
            started = self._start_async(["sh", "-c", line], folder=self.folder, environment=self._environment)
            self._programs.append(started)
            if FIRST in text:
                await started.wait_for_text("export KUBECONFIG")
            return
        printed = ""

        async def is_so() -> bool:
            nonlocal printed
            done = await run(self._start_async, "sh", "-c", text, folder=self.folder, environment=self._environment)
            printed = done.stdout + done.stderr
            return is_shown(command, printed)

        if any(word in text for word in CHANGES):
            assert await is_so(), f"{command}: {printed}"
        else:
            await eventually(is_so, f"{command} shows {command.shown}")

    async def stop_fakedev(self) -> None:
        """Stop the service, as the page says."""
        assert await self._programs[-1].stop() == 0


@pytest_twisted.ensureDeferred
async def test_the_session(tmp_path: Path, start_async: StartAsync) -> None:
    require_program("curl")
    desk = Desk(tmp_path, start_async)
    for command in session():
        if "kube clean" in command.text:
            await desk.stop_fakedev()
        await desk.type(command)
