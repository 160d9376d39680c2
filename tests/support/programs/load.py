"""A frontend, backends and fakedev-client as programs, on free ports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.programs.asynchronous import Page, eventually, fetch
from tests.support.programs.ports import free_port
from tests.support.programs.processes import AsyncProgram, StartAsync, clean_environment, console

#: All that the client tells of its load.
Statistics = dict[str, Any]


class Stand:
    """The three programs; the frontend can be started again on its ports.

    :ivar clients, workers, metrics: the frontend's addresses.
    :ivar control: the client's.
    :ivar start: starts any program.
    :ivar frontend: the one that runs, after ``start_frontend``.
    """

    frontend: AsyncProgram

    def __init__(self, start: StartAsync, folder: Path) -> None:
        self.folder = folder
        self.clients, self.workers, self.metrics, self.control = (f"127.0.0.1:{free_port()}" for _ in range(4))
        self.start = start

    async def start_frontend(self) -> None:
        """Start it, and wait for it."""
        addresses = ["-caddr", self.clients, "-waddr", self.workers, "-maddr", self.metrics]
        self.frontend = self.start([*console("fakedev-frontend"), *addresses, "sleep"])
        await self.frontend.wait_for_text("backends of the queues: ")

    def backend(self, *arguments: str, **environment: str) -> AsyncProgram:
        """Start a backend, which waits for work as long as there is none."""
        command = [*console("fakedev-backend"), "-faddr", self.workers, "-protocol", "json", "-backoff", "1"]
        return self.start([*command, *arguments], environment=clean_environment(**environment))

    def client_command(self, *arguments: str) -> list[str]:
        """The command that starts a client."""
        return [*console("fakedev-client"), "-faddr", self.clients, "-caddr", self.control, *arguments]

    async def client(self, *arguments: str) -> AsyncProgram:
        """Start a client, and wait for its control port when it has one."""
        return await self.started(self.client_command(*arguments))

    async def started(self, command: list[str]) -> AsyncProgram:
        """A client that was started by this command."""
        client = self.start(command, folder=self.folder)
        if "-headless" not in command:
            await client.wait_for_text("statistics and control of the load: ")
        return client

    async def ask(self, path: str, method: str = "GET") -> Page:
        """What the client's control port answers."""
        return await fetch(self.control, path, method=method)

    async def plain(self, path: str) -> str:
        """What it answers as plain text, without the line's end."""
        page = await self.ask(f"{path}{'&' if '?' in path else '?'}type=plain")
        assert page.status == 200, page
        return page.body.decode().removesuffix("\n")

    async def statistics(self, query: str = "") -> Statistics:
        """All statistics, which must add up at any time."""
        told: Statistics = json.loads((await self.ask(f"/stats?type=json{query}")).body)
        check_sums(told)
        return told

    async def until(self, is_so: Callable[[Statistics], bool], what: str, query: str = "") -> Statistics:
        """Wait until the statistics are as they should be; the statistics then."""

        async def found() -> Statistics | None:
            told = await self.statistics(query)
            return told if is_so(told) else None

        return await eventually(found, what)

    async def until_good(self, more: int = 5) -> Statistics:
        """Wait until so many more requests have succeeded; the statistics then."""
        before = (await self.statistics())["successes"]
        return await self.until(lambda told: told["successes"] >= before + more, f"{more} more requests succeed")


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
