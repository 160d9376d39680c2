"""fakedev scenario blocks: what it refuses, and what it says. tests/scenario/real has the real promtool."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakedev.commands.main import main
from fakedev.commands.scenario.blocks import advice


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A folder with one window, and a file that is not whole."""
    folder = tmp_path / "history"
    folder.mkdir()
    (folder / "2026-11-22T06Z.om").write_text("# EOF\n")
    (folder / "2026-11-22T08Z.om.part").write_text("a")
    return folder


def test_without_promtool(history: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["scenario", "blocks", str(history), str(history / "data")]) == 1
    assert "promtool is needed" in capfd.readouterr().err
    assert not (history / "data").exists()


def test_folders(history: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What is missing or a file is told, with the remedy."""
    (file,) = history.glob("*.om")
    for arguments, words in [
        ((tmp_path / "none", tmp_path), "no such file or folder: write one with"),
        ((history, file), "is a file: give a folder"),
        ((tmp_path, tmp_path), "has no files *.om"),
    ]:
        assert main(["scenario", "blocks", *map(str, arguments)]) == 2
        assert words in capfd.readouterr().err


def test_one_that_refuses(
    history: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """promtool's words, with the file, and 1. Files that are not whole are left out."""
    program = tmp_path / "promtool"
    program.write_text('#!/bin/sh\necho "no good: $4"\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["scenario", "blocks", str(history), str(tmp_path / "data")]) == 1
    file = history / "2026-11-22T06Z.om"
    assert capfd.readouterr().err == f"fakedev scenario blocks: {file}: promtool: no good: {file}\n"


def test_last_blocks_that_are_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run tells in promtool's words, also of the window in which it ends."""
    program = tmp_path / "promtool"
    program.write_text("#!/bin/sh\necho no good\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    scenario = tmp_path / "s.yaml"
    pool = "{name: a, nodes: [n], device: h100, devices-per-node: 1, identity: dcgm}"
    fleet = f"{{tick: 15s, pools: [{pool}]}}"
    scenario.write_text(f"scenario: {{for: 1m, scrape: 15s}}\nconfig: {{fleet: {fleet}}}\ntimeline: []\n")
    assert main(["scenario", "run", str(scenario), "--blocks", str(tmp_path / "data")]) == 1
    assert "promtool: no good" in capfd.readouterr().err


def test_advice() -> None:
    """What to do with blocks; old ones need a longer retention."""
    day = 86_400.0
    assert "retention" not in advice(Path("d"), [90 * day, None], 100 * day)
    assert "retention" not in advice(Path("d"), [None], 100 * day)
    assert "up to 20 days old" in (told := advice(Path("d"), [80.5 * day, 90 * day], 100 * day))
    assert "--storage.tsdb.retention.time=21d" in told
