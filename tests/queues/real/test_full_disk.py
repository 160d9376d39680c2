"""A service with a durable queue whose disk is full for a while, as those see it who ask over sockets."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import FLEET, StartAsync, connected, eventually, ready
from tests.support.programs.processes import console

pytestmark = [pytest.mark.real, pytest.mark.slow]

READY_PATHS = ("/-/ready", "/readyz")


@pytest_twisted.ensureDeferred
async def test_full_disk_makes_the_service_unready_until_there_is_room(
    start_async: StartAsync, tmp_path: Path
) -> None:
    """It names the file and the reason, refuses requests, keeps what it promised, and recovers by itself."""
    config, file = tmp_path / "fakedev.yaml", tmp_path / "ready.json"
    config.write_text(
        f'{FLEET}\nweb: ["127.0.0.1:0"]\nworkloads: {{listen: ["{tmp_path}/workloads.sock"]}}\n'
        f"queues: {{names: {{media: {{durable: log}}, other: {{}}}}, "
        f'listen-clients: ["{tmp_path}/clients.sock"], listen-backends: ["{tmp_path}/backends.sock"]}}\n'
    )
    program = start_async([*console("fakedev"), "serve", "--config", str(config), "--ready-file", str(file)])
    service = await ready(program, file)
    async with await connected(str(tmp_path / "clients.sock")) as first:
        assert await first.say("put media 1") == "ok 1"
        assert [(await service.fetch(path)).status for path in READY_PATHS] == [200, 200]

        size = (tmp_path / "log" / "requests.log").stat().st_size
        before = resource.prlimit(program.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(program.pid, resource.RLIMIT_FSIZE, (size, before[1]))
        async with await connected(str(tmp_path / "clients.sock")) as refused:
            answer = await refused.say("put media 2")
            assert answer.startswith("error full queue 'media': ") and "requests.log cannot be written" in answer
            assert await refused.rest() == b""
        for path in READY_PATHS:
            page = await service.fetch(path)
            assert page.status == 503
            assert f"{tmp_path}/log/requests.log cannot be written: " in page.body.decode()
        assert [(await service.fetch(path)).status for path in ("/livez", "/health")] == [200, 200]
        assert (await first.say("put other 3")).startswith("ok ")

        resource.prlimit(program.pid, resource.RLIMIT_FSIZE, before)

        async def is_ready() -> bool:
            return (await service.fetch("/-/ready")).status == 200

        await eventually(is_ready, "the service is ready again")
        assert (await first.say("put media 4")).startswith("ok ")
    queues = json.loads((await service.fetch("/api/v1/queues/media")).body)
    assert queues["waiting"] == 2
    assert await program.stop() == 0
