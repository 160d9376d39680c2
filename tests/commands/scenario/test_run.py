"""fakedev scenario run and from: what they print, what they write, and what they say of mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fakedev.commands.main import main
from fakedev.commands.scenario.run import end_seconds
from fakedev.fleet.spec.named_profiles import PROFILES
from tests.support.fleet.records import without_checksums
from tests.support.scenarios import written

STORM = """
  - {at: 0s, as: llm, run: {name: llm, devices: "dgx-0/[0-1]", profile: 95:2:0, pod: llm-0}}
  - {at: 1m, as: hot, fault: {kind: fan, devices: dgx-0/1, duration: 3m}}
  - {at: 2m, fault: {kind: xid, code: 31, devices: dgx-0/3}}
  - {at: 3m, as: link, fault: {kind: link-down, link: 0, devices: dgx-0/2}}
  - {at: 4m, clear: link}
  - {at: 5m, stop: llm}
  - {at: 6m, speed: 30}
"""


def said(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What `fakedev scenario` prints; with another code than 0 what it says to standard error."""
    assert main(["scenario", *arguments]) == code
    told = capfd.readouterr()
    return told.out if code == 0 else told.err


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in without_checksums(path.read_bytes()).splitlines()]


@pytest.mark.slow
def test_a_table_of_the_faults(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without further options: what happened, from when to when, to which devices."""
    text = said(capfd, "run", written(tmp_path, STORM))
    assert [line.split() for line in text.splitlines()] == [
        ["FROM", "TO", "FAULT", "NAME", "DEVICES"],
        ["1m", "4m", "fan", "hot", "dgx-0/1"],
        ["2m", "121s", "xid", "dgx-0/3"],
        ["3m", "4m", "link-down", "link", "dgx-0/2"],
    ]
    assert said(capfd, "run", written(tmp_path, "  - {at: 1s, speed: 2}\n")) == "nothing happened\n"


def test_check(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Only the file is read; every mistake has its line."""
    path = written(tmp_path, STORM)
    assert said(capfd, "run", path, "--check") == f"{path}: good: 7 occurrences in 10m\n"
    path = written(tmp_path, "  - {at: 1s, clear: x}\n  - {at: 99m, speed: 3}\n")
    assert main(["scenario", "run", path, "--check"]) == 2
    assert capfd.readouterr().err.startswith(f"{path}:11: clear: no entry 'x' that it could be")


@pytest.mark.slow
def test_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Truth, journal, record and history: of the same run."""
    path = written(tmp_path, STORM)
    truth, journal, record, history = (tmp_path / each for each in ("truth", "journal", "record", "history"))
    files = ["--truth", str(truth), "--journal", str(journal), "--record", str(record), "--openmetrics", str(history)]
    assert said(capfd, "run", path, *files, "--end", "2026-11-22T06:10:00Z") == ""
    causes = [line for line in lines(truth) if line["type"] == "cause"]
    assert [(cause["kind"], cause["name"], cause["from"], cause["to"]) for cause in causes] == [
        ("fan", "hot", 60.0, 240.0), ("xid", "", 120.0, 121.0), ("link-down", "link", 180.0, 240.0),
    ]  # fmt: skip
    assert [line["kind"] for line in lines(journal)][:3] == ["clock", "start", "fault"]
    head, *events = lines(record)
    assert head["epoch"] == 1795327200.0
    assert [each["event"] for each in events] == ["clock", "start", "fault", "fault", "fault", "clear", "stop", "clock"]
    (file,) = history.iterdir()
    assert file.name == "2026-11-22T06Z.om"
    text = file.read_text()
    assert 'up{instance="dgx-0:9400",job="fakedev"} 1 1795327200.000\n' in text
    assert text.endswith("# EOF\n")


@pytest.mark.slow
def test_the_pages_of_its_record(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """fakedev render takes its record; a scenario made of it has the same events in the same ticks."""
    path, record, again = written(tmp_path, STORM), tmp_path / "run.jsonl", tmp_path / "again.yaml"
    said(capfd, "run", path, "--record", str(record))
    assert main(["render", "--events", str(record), "--for", "10m", "--every", "1m"]) == 0
    pages = capfd.readouterr().out
    again.write_text(said(capfd, "from", str(record)))
    second = tmp_path / "second.jsonl"
    said(capfd, "run", str(again), "--record", str(second), "--set", "fleet.seed=3")
    assert [{**line, "seq": 0} for line in lines(second)[1:]] == [{**line, "seq": 0} for line in lines(record)[1:]]
    assert main(["render", "--events", str(second), "--for", "10m", "--every", "1m"]) == 0
    assert capfd.readouterr().out == pages


@pytest.mark.slow
def test_work_of_a_record(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Profiles by name are in a record with all their activities; the scenario has the same."""
    works = [f"  - {{at: 1s, run: {{name: {each}, devices: all, profile: {each}}}}}\n" for each in sorted(PROFILES)]
    path = written(tmp_path, "".join(works))
    record, again = tmp_path / "run.jsonl", tmp_path / "again.yaml"
    said(capfd, "run", path, "--record", str(record), "--set", "fleet.tick=15s")
    again.write_text(said(capfd, "from", str(record)))
    second = tmp_path / "second.jsonl"
    said(capfd, "run", str(again), "--record", str(second))
    assert len(lines(record)[1:]) >= len(PROFILES)
    assert lines(second)[1:] == lines(record)[1:]


@pytest.mark.slow
def test_a_record_with_a_reload(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The configuration of a reload needs a file, beside that of the scenario."""
    path, record = written(tmp_path, "  - {at: 1m, reload: {set: [fleet.pools.0.inlet=40]}}\n"), tmp_path / "run.jsonl"
    said(capfd, "run", path, "--record", str(record))
    refused = said(capfd, "from", str(record), code=2)
    assert refused.endswith("it has reloads, whose configurations need files of their own: give --output FILE\n")
    again = tmp_path / "again.yaml"
    said(capfd, "from", str(record), "--output", str(again))
    assert sorted(each.name for each in tmp_path.glob("again*")) == ["again.reload-1.yaml", "again.yaml"]
    assert said(capfd, "run", str(again), "--check").endswith("good: 1 occurrence in 61s\n")


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["run", "missing.yaml"], 2, "missing.yaml: no such file"),
        (["run", "SCENARIO", "--end", "soon"], 2, "'soon' is no time: give now, or one such as 2026-11-22T06:00:00Z"),
        (["run", "SCENARIO", "--truth", "no/folder"], 1, "no/folder: no such file or folder"),
        (["run", "SCENARIO", "--openmetrics", "SCENARIO"], 1, "there is something with this name already"),
        (["from", "SCENARIO"], 2, "line 1: not JSON"),
        (["from", "missing.jsonl"], 2, "missing.jsonl: no such file or folder"),
        (["runs"], 2, "no subcommand 'runs'; did you mean run?"),
        ([], 2, ""),
    ],
)
def test_mistakes(
    arguments: list[str], code: int, text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, STORM)
    words = [path if argument == "SCENARIO" else argument for argument in arguments]
    try:
        assert main(["scenario", *words]) == code
    except SystemExit as end:
        assert end.code == code
    assert text in capfd.readouterr().err


def test_the_end_of_a_history() -> None:
    """A time with a zone, or in UTC."""
    assert end_seconds("2026-11-22T06:00:00Z") == end_seconds("2026-11-22T06:00:00") == 1795327200.0
    assert end_seconds("2026-11-22T07:00:00+01:00") == 1795327200.0
