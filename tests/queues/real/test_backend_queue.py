"""fakedev-backend with fakedev's own frontend, in both protocols, and running simulated work."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import FLEET, AsyncPeer, AsyncService, connected, eventually, ready
from tests.support.programs.processes import AsyncProgram, StartAsync, console

pytestmark = pytest.mark.real

SH = "/bin/sh"
BOTH = pytest.mark.parametrize("protocol", ["bare", "json"])


@dataclass
class Queues:
    """A service with the queue q on UNIX sockets, whose paths these are."""

    service: AsyncService
    clients: str
    backends: str
    start_async: StartAsync

    def backend(self, protocol: str, *arguments: str) -> AsyncProgram:
        started = [*console("fakedev-backend"), "-faddr", self.backends, "-name", "q", "-protocol", protocol]
        return self.start_async([*started, *arguments])

    async def client(self) -> AsyncPeer:
        return await connected(self.clients)

    async def becomes(self, figure: str, value: int) -> None:
        """Wait until a figure that the service has of the queue is as it should be."""

        async def is_so() -> bool:
            return (await self.service.get_json("/api/v1/queues/q"))[figure] == value

        await eventually(is_so, f"{figure} is {value}")


@pytest_twisted.async_fixture
async def queues(start_async: StartAsync, tmp_path: Path) -> Queues:
    clients, backends = str(tmp_path / "clients.sock"), str(tmp_path / "backends.sock")
    config, file = tmp_path / "fakedev.yaml", tmp_path / "ready.json"
    config.write_text(
        f'{FLEET}\nweb: ["127.0.0.1:0"]\nworkloads: {{listen: ["{tmp_path}/workloads.sock"]}}\n'
        f'queues: {{names: {{q: {{grace: 1h}}}}, listen-clients: ["{clients}"], listen-backends: ["{backends}"]}}\n'
    )
    program = start_async([*console("fakedev"), "serve", "--config", str(config), "--ready-file", str(file)])
    return Queues(await ready(program, file), clients, backends, start_async)


@BOTH
@pytest_twisted.ensureDeferred
async def test_results_of_all_kinds(queues: Queues, protocol: str) -> None:
    """Success, failure, signal, time-out: each with its name and exit code."""
    scripts = [("exit 0", "0"), ("exit 3", "0"), ("kill -9 $$", "0"), ("sleep 60", "200ms")]
    async with await queues.client() as client:
        for script, limit in scripts:
            assert (await client.say(f"put q -c '{script}' limit={limit}")).startswith("ok ")
        program = queues.backend(protocol, SH)
        ended = [(await client.line()).split() for _ in scripts]
    assert [words[2] for words in ended] == ["success", "failure", "failure", "timeout"]
    assert [words[3] for words in ended] == [f"exit-code={code}" for code in (0, 3, 137, 124)]
    assert await program.wait() == 0


@pytest_twisted.ensureDeferred
async def test_a_client_that_leaves_ends_its_command(queues: Queues) -> None:
    """The frontend tells a backend that is connected in JSON lines."""
    async with await queues.client() as client:
        await client.say("put q -c 'echo begun; sleep 3600'")
        program = queues.backend("json", "-backoff", "5", SH)
        await program.wait_for_text("begun")
    await program.wait_for_text("withdrew")
    assert await program.stop() == 0


@pytest_twisted.ensureDeferred
async def test_a_backend_waits_without_asking_again(queues: Queues) -> None:
    """It waits at the frontend; a signal ends it although the frontend is stopped."""
    program = queues.backend("json", "-backoff", "1000", "-backoff-max", "1000", SH)
    await queues.becomes("workers-idle", 1)
    async with await queues.client() as client:
        await client.say("put q -c 'exit 0'")
        assert (await client.line()).startswith("ended 1 success ")
    await queues.becomes("workers-idle", 1)
    queues.service.program.send_signal(signal.SIGSTOP)
    assert await program.stop(signal.SIGINT) == 0
    queues.service.program.send_signal(signal.SIGCONT)


@pytest_twisted.ensureDeferred
async def test_queue_work_loads_simulated_devices(queues: Queues, tmp_path: Path) -> None:
    """The command is fakedev-workload: its exit code is the job's, its device is busy meanwhile."""
    workload = tmp_path / "fakedev-workload"
    python, _, code = console("fakedev-workload")
    workload.write_text(f'#!/bin/sh\nexec "{python}" -c "{code}" "$@"\n')
    workload.chmod(0o755)

    async def has_load(percent: int) -> bool:
        page = (await queues.service.fetch("/nodes/a/metrics")).body.decode()
        (value,) = re.findall(r'^DCGM_FI_DEV_GPU_UTIL\{gpu="1".*\} (\S+)$', page, re.MULTILINE)
        return float(value) == percent

    queues.backend("json", "-backoff", "5", str(workload), "-socket", queues.service.workloads[0], "-node", "a")
    async with await queues.client() as client:
        await client.say("put q -devnames card1 -activity 70:0:0 limit=1m")

        await eventually(lambda: has_load(70), "the device is busy")
    await eventually(lambda: has_load(0), "the device is idle when the client has left")
    async with await queues.client() as client:
        await client.say("put q -devnames nonsense -activity 70:0:1")
        assert (await client.line()).startswith("ended 2 failure exit-code=1 ")
