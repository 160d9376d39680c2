"""Faults over real sockets, recorded, and run again without any: the same bytes."""

from __future__ import annotations

import http.client
import json
from pathlib import Path

import pytest

from tests.support.programs.service import FLEET, Service, StartProgram, assert_run_again, eventually, serve

pytestmark = pytest.mark.real

FAST = FLEET.replace("seed: 7", "seed: 7\n  tick: 100ms\n  speed: 1")


def closed_without_answer(service: Service) -> bool:
    """Whether the page of a node is closed instead of answered."""
    try:
        service.fetch("/nodes/a/metrics")
    except (http.client.RemoteDisconnected, ConnectionError):
        return True
    return False


def seen_ticks(service: Service, seen: dict[int, bytes]) -> int:
    """How many ticks were seen, after one more look."""
    page = service.fetch("/metrics")
    seen[int(page.headers["x-fakedev-tick"])] = page.body
    return len(seen)


def test_a_session(start_program: StartProgram, tmp_path: Path) -> None:
    """A node goes down and comes back, series are wrong, a board is lost: seen, explained, in the journal, recorded."""
    record, journal, pages = tmp_path / "run.jsonl", tmp_path / "journal", tmp_path / "pages"
    base = ", base: [{name: w, devices: all, profile: '60:10:0'}]"
    fleet = f"journal: {{file: {journal}}}\n{FAST.lstrip()}"
    service = serve(start_program, tmp_path, "--record", str(record), fleet=fleet, base=base)
    peer = service.connect(1)
    assert peer.say("fault nan devices=b/0 metric=power probability=0.5") == "ok f2"
    assert peer.say("fault frozen devices=b/1 metric=temperature") == "ok f3"
    assert peer.say("fault lost devices=a/1") == "ok f4"
    assert peer.say("fault node-down node=a start=200ms") == "ok f5"
    eventually(lambda: closed_without_answer(service), "the node to be down")
    assert peer.say("clear f5") == "ok cleared 1"
    eventually(lambda: not closed_without_answer(service), "the node to be back")
    assert peer.say("explain a/1 power") == "ok 1 lines"
    assert "not shown: the device is lost" in peer.line()
    seen: dict[int, bytes] = {}
    eventually(lambda: seen_ticks(service, seen) >= 5, "five ticks")
    told = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    assert {"fault", "began", "lost", "ended", "clear", "over"} <= {each["kind"] for each in told}
    assert service.program.stop() == 0
    assert_run_again(record, seen, pages)
