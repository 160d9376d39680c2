"""fakedev-dcgm-exporter as a manifest starts it: variables, no file, a signal at the end."""

from __future__ import annotations

import signal

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import fetch
from tests.support.programs.ports import free_port
from tests.support.programs.processes import StartAsync, console

pytestmark = pytest.mark.real

EXPORTER = console("fakedev-dcgm-exporter")


@pytest_twisted.ensureDeferred
async def test_flags(start_async: StartAsync) -> None:
    """The arguments of a manifest: the page, the word of /health, nothing else, and a good end."""
    address = f"127.0.0.1:{free_port()}"
    counters = "/etc/dcgm-exporter/dcp-metrics-included.csv"
    program = start_async([*EXPORTER, "-f", counters, "-a", address, "-k", "--collect-interval=1000"])
    await program.wait_for_text("metrics, as the exporter has them: ")
    page = await fetch(address, "/metrics")
    assert page.status == 200
    assert page.headers["content-type"] == "text/plain; charset=utf-8"
    assert page.body.count(b'DCGM_FI_DEV_GPU_TEMP{gpu="') == 8
    assert b'pod="train-7"} ' in page.body
    health = await fetch(address, "/health")
    assert (health.status, health.body) == (200, b"OK")
    assert (await fetch(address, "/nodes")).status == 404
    assert await program.stop(signal.SIGTERM) == 0


@pytest_twisted.ensureDeferred
async def test_a_mistake(start_async: StartAsync) -> None:
    """Ends with 2 before anything listens."""
    program = start_async([*EXPORTER, "-f", "/nowhere.csv"])
    assert await program.wait() == 2
    assert "/nowhere.csv: no such file" in program.stderr
