"""``fakedev upgrade`` by promtool: rules of the old release on the pages of the new one."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from fakedev.commands.main import main
from fakedev.config.sample_page import sample_page
from fakedev.scenario.rules.rule_files import read_rules
from tests.support.programs.processes import console

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
    found = {load["name"]: load for load in json.loads(capsys.readouterr().out)}
    assert {name: each["verdict"] for name, each in found.items()} == {
        "gpu:memory": "silent", "Full": "silent", "Recorded": "silent", "Idle": "silent", "Down": "unchanged",
        "GPUs": "silent",
    }  # fmt: skip
    for name in found:
        assert (found[name]["proved"], found[name]["bridged"]) == (True, True)
    written = (tmp_path / "out" / "rules.yml").read_text()
    assert "$labels.hostname" in written
    assert len(read_rules(written, "rules.yml").alerts) == 4
    (group,) = yaml.safe_load((tmp_path / "out" / "old-names.yml").read_text())["groups"]
    assert {"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_GPU_UTIL"} <= {rule["record"] for rule in group["rules"]}
    assert "as before" in (tmp_path / "out" / "report.md").read_text()
    assert (tmp_path / "out" / "report.html").read_text().startswith("<!doctype html>")


def test_all_is_as_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From 4.8.3 to 4.8.4 only texts of HELP lines change. A folder may have other YAML beside the rules."""
    (tmp_path / "rules.yml").write_text(RULES)
    (tmp_path / "deployment.yaml").write_text("kind: Deployment\n")
    assert main(["upgrade", "--from", "dcgm@4.8.3", "--to", "dcgm@4.8.4", "--rules", str(tmp_path)]) == 0
    assert "5 expressions: 5 unchanged" in capsys.readouterr().out


def test_a_page_of_the_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From a captured page; what it does not have is not tried, and a name with another unit is another scale."""
    _, page = sample_page("dcgm@4.8.4", "h100")
    (tmp_path / "page.txt").write_text(page)
    queries = ["max(DCGM_FI_DEV_POWER_USAGE)", "DCGM_FI_DEV_FAN_SPEED", "avg by (gpu) (DCGM_FI_PROF_DRAM_ACTIVE)"]
    (tmp_path / "board.json").write_text(json.dumps([{"title": query, "expr": query} for query in queries]))
    given = ["--from", str(tmp_path / "page.txt"), "--to", "dcgm@4.9.0", "--dashboards", str(tmp_path / "board.json")]
    assert main(["upgrade", *given, "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert [each["verdict"] for each in found] == ["silent", "not shown", "silent"]
    assert [each["proved"] for each in found] == [True, None, True]


@pytest.mark.requires_program("prometheus")
def test_by_the_truth_of_a_scenario(tmp_path: Path) -> None:
    """An alert that saw a fault, and one that begins to fire without any: its threshold has the old unit."""
    pool = {"name": "a", "nodes": ["a-0"], "device": "h100", "devices-per-node": 2, "identity": "dcgm@4.8.2"}
    work = {"at": "0s", "run": {"name": "w", "devices": "*/*", "profile": "90:0:0"}}
    fault = {"at": "10m", "fault": {"kind": "overheat", "devices": "a-0/1", "duration": "8m"}}
    tree = {"scenario": {"for": "25m"}, "config": {"fleet": {"pools": [pool]}}, "timeline": [work, fault]}
    (tmp_path / "heat.yaml").write_text(json.dumps(tree))
    rules = {"Hot": "DCGM_FI_DEV_GPU_TEMP > 85", "Idle": "DCGM_FI_DEV_GPU_UTIL < 10 or DCGM_FI_DEV_GPU_UTIL_RATIO < 10"}
    groups = [{"name": "g", "rules": [{"alert": name, "expr": expression} for name, expression in rules.items()]}]
    (tmp_path / "rules.json").write_text(json.dumps({"groups": groups}))
    given = ["--rules", str(tmp_path / "rules.json"), "--scenario", str(tmp_path / "heat.yaml")]
    # In a process of its own: a reactor runs only once.
    command = [*console("fakedev"), "upgrade", "--from", "dcgm@4.8.2", "--to", "dcgm@4.9.0", *given, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "")
    found = {load["name"]: load for load in json.loads(done.stdout)}
    assert {name: each["verdict"] for name, each in found.items()} == {"Hot": "silent", "Idle": "false alarms"}
    assert (found["Hot"]["proved"], found["Hot"]["bridged"]) == (True, True)
