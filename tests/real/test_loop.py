"""etc/loop.sh: a queue, backends and simulated boards act on each other, and all of it ends together."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents.page_pictures import programs
from tests.support.paths import ROOT
from tests.support.programs.ports import free_port
from tests.support.programs.processes import Program, clean_environment
from tests.support.programs.service import eventually, fetch

pytestmark = pytest.mark.real


@pytest.mark.long
def test_what_boards_do_is_felt_in_the_queue(start_program: Callable[..., Program], tmp_path: Path) -> None:
    """Jobs run on the boards; half of the clock is gone, and more wait than ever before; all ends by one signal."""
    web, clients, backends = (f"127.0.0.1:{free_port()}" for _ in range(3))
    settings = {"web": web, "queues.listen-clients": clients, "queues.listen-backends": backends}
    arguments = [word for key, value in settings.items() for word in ("--set", f'{key}=["{value}"]')]
    environment = clean_environment(
        FAKEDEV_BIN=str(programs(tmp_path)), FAKEDEV_BACKENDS=backends, TMPDIR=str(tmp_path), PATH=os.environ["PATH"]
    )
    loop = start_program(["sh", str(ROOT / "etc" / "loop.sh"), *arguments], environment=environment, folder=tmp_path)

    def told(path: str) -> Any:
        return json.loads(fetch(web, path).body)

    def queue() -> Any:
        try:
            return told("/api/v1/queues/gpu")
        except OSError:
            return {"success": 0, "waiting": 0}  # it does not listen yet

    eventually(lambda: queue()["success"] >= 8, "jobs are done")
    usage = [device["quantities"]["usage_ratio"] for device in told("/api/v1/devices")["devices"]]
    assert max(usage) > 0.5
    before = queue()["waiting"]
    fault = fetch(web, "/api/v1/faults", '{"kind": "power-brake", "devices": "all"}', "POST")
    assert fault.status == 201
    eventually(lambda: queue()["waiting"] >= before + 6, "more wait than before")
    assert loop.stop() == 0
    with pytest.raises(OSError, match="refused"):
        fetch(web, "/health")

