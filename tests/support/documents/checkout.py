"""A folder that looks like the checkout after `make run`, in which the commands of a page run."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
from pathlib import Path

from tests.support.documents.snippets import Command, page_commands
from tests.support.paths import ROOT
from tests.support.programs.asynchronous import AsyncService, ready
from tests.support.programs.ports import free_port
from tests.support.programs.processes import AsyncProgram, StartAsync, clean_environment, console, run


def plain(line: str) -> str:
    """A line of output without what cannot be foreseen: times, numbers, sums, addresses."""
    line = re.sub(r"^\d{4}-\S+Z", "T", line)
    line = re.sub(r'"sha256":"[^"]*"', '"sha256":""', line)
    return re.sub(r"\d+(\.\d+)?", "N", line).strip()


def assert_shown(command: Command, printed: str) -> None:
    """All that the page shows was printed, in order."""
    lines = iter(map(plain, printed.splitlines()))
    for shown in map(plain, command.shown):
        assert shown in lines, f"{command} has not printed {shown!r}, but {printed[:2000]}"


class Checkout:
    """A folder that looks like the checkout after `make run`, with the my.yaml of start.md.

    :ivar service: serves my.yaml, and each node on an address of its own.
    """

    def __init__(self, folder: Path, start_async: StartAsync) -> None:
        self.folder = folder
        self._start_async = start_async
        self.environment = clean_environment(RUNTIME_DIRECTORY=str(folder / "run"))
        programs = folder / ".venv" / "bin"
        programs.mkdir(parents=True)
        for suffix in ("", "-workload", "-frontend", "-backend", "-client", "-exporter"):
            name = f"fakedev{suffix}"
            python, _, code = console(name)
            (programs / name).write_text(f"#!/bin/sh\nexec '{python}' -c \"{code}\" \"$@\"\n")
            (programs / name).chmod(0o755)
        shutil.copytree(ROOT / "etc", folder / "etc")
        (text,) = ["\n".join(each.shown) for each in page_commands("start.md") if each.text == "cat my.yaml"]
        text = f"# yaml-language-server: $schema=fakedev.schema.json\n{text}\n"
        (folder / "my.yaml").write_text(text)
        (folder / "fleet.yaml").write_text(text)
        self.ports = {port: free_port() for port in (9090, 9400, 9996, 9997, 9998, 9999)}
        self.service: AsyncService

    def written_as(self, text: str) -> str:
        """A command with the addresses of this test."""
        for port, free in self.ports.items():
            text = re.sub(rf"(localhost|127[.0-9]+):{port}\b", rf"\1:{free}", text)
        text = text.replace("/tmp/fakedev-$(id -u)", str(self.folder / "run"))
        return text.replace("kill -HUP PID", f"kill -HUP {self.service.program.pid}") if "PID" in text else text

    def start(self, text: str, **options: object) -> AsyncProgram:
        """Start a command in the folder."""
        command = self.written_as(text).partition("  #")[0].rstrip(" &")
        return self._start_async(
            ["sh", "-c", f"exec {command}"], folder=self.folder, environment=self.environment, **options
        )

    async def serve(self, per_node: bool = False) -> AsyncService:
        """Start the service of my.yaml beside which commands run.

        :param per_node: it has an address for each node, and a UNIX socket for the rest.
        """
        port = self.ports[9400]
        assignments = [f"workloads.listen.0={self.folder}/run/workload.sock", f"web.0.listen=127.0.0.1:{port}"]
        if per_node:
            assignments[1] = f'web=["{self.folder}/web.sock", {{"per-node": "127.64.0.0/16:{port}"}}]'
        options = " ".join(f"--set {shlex.quote(assignment)}" for assignment in assignments)
        program = self.start(f".venv/bin/fakedev serve --config my.yaml {options} --ready-file service.json")
        self.service = await ready(program, self.folder / "service.json")
        return self.service

    async def run(self, command: Command, code: int = 0) -> str:
        """Run a command to its end, and compare what it prints with the page; what it printed."""
        text = self.written_as(command.text)
        ended = await run(self._start_async, "sh", "-c", text, folder=self.folder, environment=self.environment)
        assert ended.exit_code == code, f"{command}: {ended.exit_code}: {ended.stderr}"
        assert_shown(command, ended.stdout + ended.stderr)
        return ended.stdout

    async def serve_and_stop(self, command: Command) -> None:
        """A service that a page starts: it is stopped when it is ready."""
        file = self.folder / "ready.json"
        text = command.text.partition("  #")[0]
        program = self.start(f"{text} --port 0 --ready-file ready.json")
        await ready(program, file)
        assert await program.stop(signal.SIGINT) == 0
