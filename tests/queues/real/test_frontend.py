"""fakedev-frontend as a program: the original's bytes by raw sockets, the page, the log, and its end."""

from __future__ import annotations

import json
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import AsyncPeer, AsyncProgram, StartAsync, connected, eventually, fetch
from tests.support.programs.ports import free_port
from tests.support.programs.processes import console, require_program, run

pytestmark = pytest.mark.real

FRONTEND = console("fakedev-frontend")


def go_json(**fields: object) -> bytes:
    """An object as the original's programs send it: indented with tabs, without a newline at the end."""
    return json.dumps(fields, indent="\t").encode()


@dataclass
class Frontend:
    """A fakedev-frontend that runs, and its addresses for clients, for backends and for metrics."""

    program: AsyncProgram
    clients: str
    workers: str
    metrics: str

    async def request(self, queue: str, *arguments: str) -> AsyncPeer:
        """A client of the original that has sent a request."""
        client = await connected(self.clients)
        await client.send(go_json(Queue=queue, Args=list(arguments), Limit=600.5))
        return client

    async def ask(self, queue: str) -> tuple[AsyncPeer, dict[str, object]]:
        """A backend of the original that has asked for work, and what it was answered."""
        backend = await connected(self.workers)
        await backend.send(go_json(Queue=queue))
        return backend, json.loads(await backend.some())

    async def ask_until_there_is_work(self, queue: str) -> AsyncPeer:
        """A backend of the original that has got a job, by its first question or a later one."""

        async def with_work() -> AsyncPeer | None:
            backend, work = await self.ask(queue)
            return None if work["Empty"] else backend

        return await eventually(with_work, "work is there")

    async def value(self, series: str) -> float | None:
        """The value of a series on the page; None when it is not there."""
        lines = (await fetch(self.metrics, "/metrics")).body.decode().splitlines()
        values = [line.rpartition(" ")[2] for line in lines if line.rpartition(" ")[0] == series]
        return float(values[0]) if values else None

    async def becomes(self, series: str, value: float) -> None:
        async def is_so() -> bool:
            return await self.value(series) == value

        await eventually(is_so, f"{series} is {value}")


Start = Callable[..., Awaitable[Frontend]]


@pytest.fixture
def start(start_async: StartAsync) -> Start:
    """Starts the frontend with these options and queues, on free ports."""

    async def frontend(*options: str) -> Frontend:
        clients, workers, metrics = (f"127.0.0.1:{free_port()}" for _ in range(3))
        addresses = ["-caddr", clients, "--waddr", workers, f"-maddr={metrics}"]
        program = start_async([*FRONTEND, *addresses, *options])
        await program.wait_for_text("backends of the queues: ")
        return Frontend(program, clients, workers, metrics)

    return frontend


@pytest_twisted.ensureDeferred
async def test_a_request_of_the_original(start: Start) -> None:
    """Its client asks, its backend works, the result comes back, and the page counts it."""
    frontend = await start("-interval", "1", "sleep")
    async with await frontend.request("sleep", "0.5") as client:
        await frontend.becomes('hpa_queue_waiting{name="sleep"}', 1)
        backend, work = await frontend.ask("sleep")
        assert work == {"Error": "", "Args": ["0.5"], "Limit": 600.5, "Empty": False}
        assert await frontend.value('hpa_queue_running{name="sleep"}') == 1
        await backend.send(go_json(Pod="p", Node="n", Device="card0", Error="", Timeout=0, Runtime=0.5, Retcode=0))
        assert await backend.rest() == b""
        answer = json.loads(await client.rest())
    assert answer.pop("Waittime") > 0
    assert answer == {
        "Pod": "p", "Node": "n", "Device": "card0", "Error": "", "Timeout": 0, "Runtime": 0.5, "Retcode": 0,
    }  # fmt: skip
    await frontend.program.wait_for_text("run 0.500 s")
    await frontend.program.wait_for_text("(longest run on node n, pod p)")
    assert await frontend.value('hpa_queue_success_total{name="sleep"}') == 1
    assert await frontend.value('hpa_queue_maxrun_seconds{name="sleep",interval="1s"}') is not None
    assert await frontend.value("hpa_client_connections_total") == 1
    assert await frontend.value("hpa_worker_connections_total") == 1


@pytest_twisted.ensureDeferred
async def test_promtool(start: Start, start_async: StartAsync) -> None:
    frontend = await start("-interval", "5", "sleep", "media")
    page = (await fetch(frontend.metrics, "/metrics")).body
    checked = await run(start_async, require_program("promtool"), "check", "metrics", text=page)
    assert (checked.exit_code, checked.stdout, checked.stderr) == (0, "", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest_twisted.ensureDeferred
async def test_its_end(start: Start, number: signal.Signals) -> None:
    """The running job is finished first, the waiting one is answered at once; then 0."""
    frontend = await start("sleep")
    async with await frontend.request("sleep", "1") as runs:
        backend = await frontend.ask_until_there_is_work("sleep")
        async with await frontend.request("sleep", "2") as waits:
            await frontend.becomes('hpa_queue_waiting{name="sleep"}', 1)
            frontend.program.send_signal(number)
            assert "frontend goes down" in json.loads(await waits.rest())["Error"]
        await backend.send(go_json(Retcode=0))
        assert json.loads(await runs.rest())["Retcode"] == 0
    assert await frontend.program.wait() == 0
    assert "Traceback" not in frontend.program.stderr


@pytest_twisted.ensureDeferred
async def test_a_second_signal(start: Start) -> None:
    frontend = await start("sleep")
    async with await frontend.request("sleep", "1") as runs:
        backend = await frontend.ask_until_there_is_work("sleep")
        frontend.program.send_signal(signal.SIGINT)
        await frontend.program.wait_for_text("they have 25 s to finish")
        frontend.program.send_signal(signal.SIGINT)
        assert "frontend goes down" in json.loads(await runs.rest())["Error"]
        await backend.leave()
    assert await frontend.program.wait() == 0
    assert "Traceback" not in frontend.program.stderr


@pytest_twisted.ensureDeferred
async def test_signals_to_the_very_end(start: Start) -> None:
    """A signal sent again and again changes nothing: exit code 0, and no traceback."""
    frontend = await start("sleep")
    assert await frontend.value('hpa_queue_all{name="sleep"}') == 0  # its reactor runs
    assert await frontend.program.stop_impatiently() == 0
    assert "Traceback" not in frontend.program.stderr
