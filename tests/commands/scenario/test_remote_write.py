"""Options of remote write; tests/scenario/real sends a history to a real server."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fakedev.commands.main import main

SCENARIO = """
scenario: {for: 1m, scrape: 15s}
config: {fleet: {tick: 15s, pools: [{name: a, nodes: [n], device: h100, devices-per-node: 1, identity: dcgm}]}}
timeline: []
"""
URL = "http://127.0.0.1:1/api/v1/write"


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    """A scenario of a minute in which nothing happens."""
    path = tmp_path / "s.yaml"
    path.write_text(SCENARIO)
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--resume", "x"], "--resume goes with --remote-write URL"),
        (["--token-file", "x"], "--token-file goes with --remote-write URL"),
        (["--remote-write", "127.0.0.1:9090"], "is no URL such as http://127.0.0.1:9090/api/v1/write"),
        (["--remote-write", URL, "--token-file", "/nowhere/token"], "/nowhere/token: no such file"),
    ],
)
def test_refused(scenario: str, arguments: list[str], words: str, capfd: pytest.CaptureFixture[str]) -> None:
    """What cannot be used, before anything runs."""
    assert main(["scenario", "run", scenario, *arguments]) == 1
    assert words in capfd.readouterr().err


def test_other_progress(scenario: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The progress of another history is not overwritten."""
    path = tmp_path / "progress"
    path.write_text('{"history": "x", "url": "x", "begin_seconds": 1, "sent_milliseconds": 1}')
    assert main(["scenario", "run", scenario, "--remote-write", URL, "--resume", str(path)]) == 1
    assert f"{path}: is the progress of another history: remove it to begin again" in capfd.readouterr().err


def test_without_snappy(scenario: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra that has it."""
    monkeypatch.setitem(sys.modules, "cramjam", None)
    assert main(["scenario", "run", scenario, "--remote-write", URL]) == 1
    assert "pip install '.[scenario]'" in capfd.readouterr().err
