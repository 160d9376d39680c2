"""A frontend, backends and fakedev-client as programs, on free ports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.programs.ports import free_port
from tests.support.programs.processes import Program, clean_environment, console
from tests.support.programs.service import Page, StartProgram, eventually, fetch


class Stand:
    """The three programs; the frontend can be started again on its ports.

    :ivar clients, workers, metrics: the frontend's addresses.
    :ivar control: the client's.
    :ivar start: starts any program.
    """

    def __init__(self, start_program: StartProgram, folder: Path) -> None:
        self.folder = folder
        self.clients, self.workers, self.metrics, self.control = (f"127.0.0.1:{free_port()}" for _ in range(4))
        self.start = start_program
        self.frontend = self.start_frontend()

    def start_frontend(self) -> Program:
        """Start it, and wait for it."""
        addresses = ["-caddr", self.clients, "-waddr", self.workers, "-maddr", self.metrics]
        self.frontend = self.start([*console("fakedev-frontend"), *addresses, "sleep"])
        self.frontend.wait_for_text("backends of the queues: ")
        return self.frontend

    def backend(self, *arguments: str, **environment: str) -> Program:
        """Start a backend, which waits for work as long as there is none."""
        command = [*console("fakedev-backend"), "-faddr", self.workers, "-protocol", "json", "-backoff", "1"]
        return self.start([*command, *arguments], environment=clean_environment(**environment))

    def client_command(self, *arguments: str) -> list[str]:
        """The command that starts a client."""
        return [*console("fakedev-client"), "-faddr", self.clients, "-caddr", self.control, *arguments]

    def client(self, *arguments: str) -> Program:
        """Start a client, and wait for its control port when it has one."""
        return self.started(self.client_command(*arguments))

    def started(self, command: list[str]) -> Program:
        """A client that was started by this command."""
        client: Program = self.start(command, folder=self.folder)
        if "-headless" not in command:
            client.wait_for_text("statistics and control of the load: ")
        return client

    def ask(self, path: str, method: str = "GET") -> Page:
        """What the client's control port answers."""
        return fetch(self.control, path, method=method)

    def plain(self, path: str) -> str:
        """What it answers as plain text, without the line's end."""
        page = self.ask(f"{path}{'&' if '?' in path else '?'}type=plain")
        assert page.status == 200, page
        return page.body.decode().removesuffix("\n")

    def statistics(self) -> dict[str, Any]:
        """All statistics, which must add up, whenever they are asked for."""
        told: dict[str, Any] = json.loads(self.ask("/stats?type=json").body)
        check_sums(told)
        return told

    def until_good(self, more: int = 5) -> dict[str, Any]:
        """Wait until so many more requests have succeeded; the statistics then."""
        before: int = eventually(self.statistics, "the client answers")["successes"]
        found: dict[str, Any] = eventually(
            lambda: (told := self.statistics())["successes"] >= before + more and told, f"{more} more requests succeed"
        )
        return found


def check_sums(told: dict[str, Any]) -> None:
    """Started requests are over in one way, or pending; nothing is negative, nothing is counted twice."""
    failures = dict(told["failures"])
    assert failures.pop("total") == sum(failures.values())
    assert told["started"] == told["completed"] + told["withdrawn"] + told["pending"]
    assert told["completed"] == told["successes"] + told["failures"]["total"]
    assert 0 <= told["pending"] <= told["outstanding"]
    assert told["successes"] <= sum(node["answers"] for node in told["nodes"]) <= told["completed"]
    assert sum(error["count"] for error in told["errors"]) == told["failures"]["total"]
    for node in told["nodes"]:
        assert node["answers"] == sum(node["devices"].values()) == sum(node["pods"].values())
