"""``fakedev upgrade`` with what needs no promtool: dashboards and queries, and what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fakedev.commands.main import main

UPGRADE = ["upgrade", "--from", "dcgm@4.8.2", "--to", "dcgm@4.9.0"]
SCALED = """
kind: ScaledObject
metadata: {name: trainer}
spec:
  triggers:
    - {type: prometheus, metadata: {query: "avg(DCGM_FI_DEV_GPU_UTIL{pod=~'t.*'})", threshold: "80"}}
---
kind: ScaledObject
spec: {triggers: [{metadata: {query: "sum(fakedev_queue_waiting)"}}]}
"""


def test_queries_of_an_autoscaler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with several documents; what is written has rules for all old names."""
    (tmp_path / "scaled.yaml").write_text(SCALED)
    output = tmp_path / "new" / "folder"
    assert main([*UPGRADE, "--dashboards", str(tmp_path), "--output", str(output)]) == 3
    told = capsys.readouterr().out
    assert "  avg(DCGM_FI_DEV_GPU_UTIL_RATIO{pod=~'t.*'} * 100)\n" in told
    assert told.endswith("2 expressions: 1 breaks, 1 unchanged\n")
    (group,) = yaml.safe_load((output / "old-names.yml").read_text())["groups"]
    assert len(group["rules"]) == 22
    assert "avg(DCGM_FI_DEV_GPU_UTIL_RATIO" in (output / "report.md").read_text()


def test_nothing_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "board.json").write_text('{"panels": [{"title": "T", "targets": [{"expr": "up"}]}]}')
    assert main([*UPGRADE, "--dashboards", str(tmp_path / "board.json"), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["name"], found["verdict"], found["changes"], found["rewritten"]) == ("T", "unchanged", [], "up")
    (tmp_path / "board.json").write_text("{}")
    assert main([*UPGRADE, "--dashboards", str(tmp_path / "board.json")]) == 0
    assert capsys.readouterr().out == "no expression was found\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dashboards", "nothere.json"], "nothere.json: no such file"),
        (["--dashboards", "bad.json"], "bad.json: cannot be read: Expecting"),
        (["--dashboards", "good.json", "--output", "good.json"], "good.json: cannot be written: there is something"),
        (["--rules", "good.json"], "good.json: is no rule file"),
        (["--rules", "bad.json", "--to", "dcgm@9"], "--to: no identity 'dcgm@9': the last release that is known is"),
    ],
)
def test_mistakes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str],
    said: str,
) -> None:  # fmt: skip
    """One line with the place and the reason; exit code 2."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "good.json").write_text("{}")
    assert main([*UPGRADE, *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error
    with pytest.raises(SystemExit, match="2"):
        main(UPGRADE)
    assert "give --rules or --dashboards" in capsys.readouterr().err
