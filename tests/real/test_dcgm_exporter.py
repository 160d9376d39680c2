"""fakedev-dcgm-exporter as a manifest starts it: variables, no file, a signal at the end."""

from __future__ import annotations

import signal

import pytest

from tests.support.programs.ports import free_port
from tests.support.programs.processes import console
from tests.support.programs.service import StartProgram, fetch

pytestmark = pytest.mark.real

EXPORTER = console("fakedev-dcgm-exporter")


def test_flags(start_program: StartProgram) -> None:
    """The arguments of a manifest: the page, the word of /health, nothing else, and a good end."""
    address = f"127.0.0.1:{free_port()}"
    counters = "/etc/dcgm-exporter/dcp-metrics-included.csv"
    program = start_program([*EXPORTER, "-f", counters, "-a", address, "-k", "--collect-interval=1000"])
    program.wait_for_text("metrics, as the exporter has them: ")
    page = fetch(address, "/metrics")
    assert page.status == 200
    assert page.headers["content-type"] == "text/plain; charset=utf-8"
    assert page.body.count(b'DCGM_FI_DEV_GPU_TEMP{gpu="') == 8
    assert b'pod="train-7"} ' in page.body
    health = fetch(address, "/health")
    assert (health.status, health.body) == (200, b"OK")
    assert fetch(address, "/nodes").status == 404
    assert program.stop(signal.SIGTERM) == 0


def test_a_mistake(start_program: StartProgram) -> None:
    """Ends with 2 before anything listens."""
    program = start_program([*EXPORTER, "-f", "/nowhere.csv"])
    assert program.wait() == 2
    assert "/nowhere.csv: no such file" in program.stderr
