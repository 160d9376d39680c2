"""etc/loop.sh: a queue, backends and simulated boards affect each other, and all of them end together."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet.error import ConnectError, ConnectionRefusedError

from tests.support.documents.page_pictures import programs
from tests.support.paths import ROOT
from tests.support.programs.asynchronous import eventually, fetch
from tests.support.programs.ports import free_port
from tests.support.programs.processes import StartAsync, clean_environment

pytestmark = pytest.mark.real


@pytest.mark.long
@pytest_twisted.ensureDeferred
async def test_slow_boards_fill_the_queue(start_async: StartAsync, tmp_path: Path) -> None:
    """Jobs run on the boards; at half the clock more jobs wait than before; one signal ends everything."""
    web, clients, backends = (f"127.0.0.1:{free_port()}" for _ in range(3))
    settings = {"web": web, "queues.listen-clients": clients, "queues.listen-backends": backends}
    arguments = [word for key, value in settings.items() for word in ("--set", f'{key}=["{value}"]')]
    environment = clean_environment(
        FAKEDEV_BIN=str(programs(tmp_path)), FAKEDEV_BACKENDS=backends, TMPDIR=str(tmp_path), PATH=os.environ["PATH"]
    )
    loop = start_async(["sh", str(ROOT / "etc" / "loop.sh"), *arguments], environment=environment, folder=tmp_path)

    async def told(path: str) -> Any:
        return json.loads((await fetch(web, path)).body)

    async def has(name: str, least: int) -> bool:
        try:
            return (await told("/api/v1/queues/gpu"))[name] >= least
        except ConnectError:
            return False  # it does not listen yet

    async def is_busy() -> bool:
        devices = (await told("/api/v1/devices"))["devices"]
        return any(device["quantities"]["usage_ratio"] > 0.5 for device in devices)

    await eventually(lambda: has("success", 8), "jobs are done")
    await eventually(is_busy, "a board works")
    before = (await told("/api/v1/queues/gpu"))["waiting"]
    fault = await fetch(web, "/api/v1/faults", '{"kind": "power-brake", "devices": "all"}', "POST")
    assert fault.status == 201
    await eventually(lambda: has("waiting", before + 6), "more wait than before")
    assert await loop.stop() == 0
    with pytest.raises(ConnectionRefusedError):
        await fetch(web, "/health")
