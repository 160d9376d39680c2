"""``fakedev upgrade`` by promtool: rules of the old release on the pages of the new one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fakedev.commands.main import main
from fakedev.scenario.rule_files import read_rules

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.requires_program("promtool")]

RULES = """
groups:
  - name: gpus
    rules:
      - {record: "gpu:memory", expr: DCGM_FI_DEV_FB_USED / 1024}
      - {alert: Full, expr: "DCGM_FI_DEV_FB_USED > 60000", for: 1m}
      - {alert: Recorded, expr: "gpu:memory > 60"}
      - {alert: Idle, expr: "DCGM_FI_DEV_GPU_UTIL < 10", for: 1m, annotations: {summary: "{{ $labels.Hostname }}"}}
      - {alert: Down, expr: "up == 0"}
"""


def test_from_4_8_to_4_9(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rules fall silent, or are always true; rewritten, and beside the recording rules, they fire as they did."""
    (tmp_path / "rules.yml").write_text(RULES)
    board = {"title": "GPUs", "panels": [{"targets": [{"expr": "DCGM_FI_DEV_GPU_UTIL"}]}]}
    (tmp_path / "board.json").write_text(json.dumps(board))
    given = ["--rules", str(tmp_path / "rules.yml"), "--dashboards", str(tmp_path / "board.json")]
    where = ["--json", "--output", str(tmp_path / "out")]
    assert main(["upgrade", "--from", "dcgm@4.8.2", "--to", "dcgm@4.9.0", *given, *where]) == 3
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert {name: each["verdict"] for name, each in found.items()} == {
        "gpu:memory": "breaks", "Full": "silent", "Recorded": "silent", "Idle": "silent", "Down": "unchanged",
        "GPUs": "breaks",
    }  # fmt: skip
    for name in ("Full", "Recorded", "Idle", "Down"):
        assert (found[name]["proved"], found[name]["bridged"]) == (True, True)
    written = (tmp_path / "out" / "rules.yml").read_text()
    assert "$labels.hostname" in written
    assert len(read_rules(written, "rules.yml").alerts) == 4
    (group,) = yaml.safe_load((tmp_path / "out" / "old-names.yml").read_text())["groups"]
    assert {"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_UTIL"} <= {rule["record"] for rule in group["rules"]}
    assert "as before" in (tmp_path / "out" / "report.md").read_text()


def test_all_is_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From 4.8.3 to 4.8.4 only texts of HELP lines change."""
    (tmp_path / "rules.yml").write_text(RULES)
    assert main(["upgrade", "--from", "dcgm@4.8.3", "--to", "dcgm@4.8.4", "--rules", str(tmp_path)]) == 0
    assert "5 expressions: 5 unchanged" in capsys.readouterr().out
