"""``fakedev sd``: the targets of /sd as a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fakedev.commands.main import main
from tests.support.application import SMALL, application


def test_it_is_what_the_service_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same targets, in the same order; of a pool, when one is named."""
    config, output = tmp_path / "f.yaml", tmp_path / "targets.json"
    config.write_text(SMALL)
    assert main(["sd", "--config", str(config), "--target", "localhost"]) == 0
    printed = json.loads(capsys.readouterr().out)
    with application() as app:
        assert printed == app.json("/sd")
    assert main(["sd", "--config", str(config), "--target", "h:1", "--pool", "p", "-o", str(output)]) == 0
    assert [load["targets"] for load in json.loads(output.read_text())] == [["h:1"], ["h:1"]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.yaml", "targets.json"]


def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line that says what is wrong, and the code."""
    config = tmp_path / "f.yaml"
    config.write_text(SMALL)
    assert main(["sd", "--config", str(config), "--pool", "q"]) == 2
    assert capsys.readouterr().err == "fakedev sd: no pool 'q'; there is p\n"
    assert main(["sd", "--config", str(config), "-o", str(tmp_path / "no" / "file")]) == 1
    assert capsys.readouterr().err == f"fakedev sd: {tmp_path}/no/file: no such file or folder\n"
    config.write_text("fleets: {}")
    assert main(["sd", "--config", str(config)]) == 2
    assert "did you mean 'fleet'?" in capsys.readouterr().err
