"""Faults over real sockets, recorded, and run again without any: the same bytes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import pytest_twisted
from twisted.web.client import ResponseNeverReceived

from tests.support.programs.asynchronous import FLEET, AsyncService, assert_run_again, eventually, serve
from tests.support.programs.processes import StartAsync

pytestmark = pytest.mark.real

FAST = FLEET.replace("seed: 7", "seed: 7\n  tick: 100ms\n  speed: 1")


async def answers(service: AsyncService) -> bool:
    """Whether the page of a node comes; otherwise the connection is closed without an answer."""
    try:
        await service.fetch("/nodes/a/metrics")
    except ResponseNeverReceived:
        return False
    return True


@pytest_twisted.ensureDeferred
async def test_a_session(start_async: StartAsync, tmp_path: Path) -> None:
    """A node goes down and comes back, series are wrong, a board is lost: seen, explained, in the journal, recorded."""
    record, journal, pages = tmp_path / "run.jsonl", tmp_path / "journal", tmp_path / "pages"
    base = ", base: [{name: w, devices: all, profile: '60:10:0'}]"
    fleet = f"journal: {{file: {journal}}}\n{FAST.lstrip()}"
    service = await serve(start_async, tmp_path, "--record", str(record), fleet=fleet, base=base)
    peer = await service.connect(1)
    assert await peer.say("fault nan devices=b/0 metric=power probability=0.5") == "ok f2"
    assert await peer.say("fault frozen devices=b/1 metric=temperature") == "ok f3"
    assert await peer.say("fault lost devices=a/1") == "ok f4"
    assert await peer.say("fault node-down node=a start=200ms") == "ok f5"

    async def is_down() -> bool:
        return not await answers(service)

    await eventually(is_down, "the node is down")
    assert await peer.say("clear f5") == "ok cleared 1"
    await eventually(lambda: answers(service), "the node is back")
    assert await peer.say("explain a/1 power") == "ok 1 lines"
    assert "not shown: lost since tick" in await peer.line()
    seen: dict[int, bytes] = {}

    async def has_seen_five() -> bool:
        page = await service.fetch("/metrics")
        seen[int(page.headers["x-fakedev-tick"])] = page.body
        return len(seen) >= 5

    await eventually(has_seen_five, "five ticks")
    assert await service.program.stop() == 0
    told = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    assert {"fault", "began", "lost", "ended", "clear", "over"} <= {each["kind"] for each in told}
    await assert_run_again(start_async, record, seen, pages)
