"""fakedev replay: the example of the documentation, the same bytes twice, what a missed bound and bad options do."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakedev.commands.main import main
from tests.support.paths import ROOT

EXAMPLE = ROOT / "etc" / "traces" / "example"
WORDS = ("--usage", "60:20", "--map", "H100=h100,T4=t4", "--output")


def test_the_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the fleet shows is what the trace says; the files are the same when written again."""
    assert main(["replay", "jobs", str(EXAMPLE), *WORDS, str(tmp_path / "a"), "--check"]) == 0
    out = capsys.readouterr().out
    assert "jobs: 7 in 2h" in out and out.count(" met\n") == 7 and "MISSED" not in out
    assert main(["replay", "jobs", str(EXAMPLE), *WORDS, str(tmp_path / "b")]) == 0
    for name in ("replay.json", "nodes.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_job_that_waits_misses_its_bounds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The trace has more than there is place for: the comparison tells, and 3."""
    (tmp_path / "nodes.csv").write_text("name,model,devices\na,T4,2\n")
    (tmp_path / "jobs.csv").write_text("name,start,end,devices\nx,0,1000,2\ny,500,1500,1\nz,10,2000,4\n")
    assert main(["replay", "jobs", str(tmp_path), *WORDS, str(tmp_path), "--check"]) == 3
    out = capsys.readouterr().out
    assert "without a place: 1: z" in out and "waited for a place: 1" in out
    missed = [line for line in out.splitlines() if line.endswith("MISSED")]
    assert any(line.startswith("running jobs") for line in missed)
    assert any(line.startswith("jobs without a place") for line in missed)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["jobs", "nowhere", *WORDS, "OUT"], "has no nodes.csv, with or without .gz"),
        (["jobs", str(EXAMPLE), "--usage", "60:20", "--output", "OUT"], "no device type for 'H100', 'T4'"),
        (["jobs", str(EXAMPLE), *WORDS, "OUT", "--from", "9d"], "no job runs between"),
    ],
)
def test_what_cannot_be_used(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence with the remedy, and 2; nothing is written."""
    assert main(["replay", *words]) == 2
    assert problem in capsys.readouterr().err
    assert not Path("OUT").exists()


def test_a_trace_without_devices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A list without a node that has devices is named."""
    (tmp_path / "nodes.csv").write_text("name,model,devices\na,T4,0\n")
    (tmp_path / "jobs.csv").write_text("name,start,devices\nx,0,1\n")
    assert main(["replay", "jobs", str(tmp_path), *WORDS, str(tmp_path / "out")]) == 2
    assert "nodes.csv: has no node with devices" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["philly", str(EXAMPLE), *WORDS, "OUT"], "invalid choice: 'philly'"),
        (["jobs", str(EXAMPLE), "--output", "OUT"], "--usage"),
        (["jobs", str(EXAMPLE), "--usage", "90:20", "--output", "OUT"], "is no PERCENT:FLUCTUATION"),
        (["jobs", str(EXAMPLE), *WORDS, "OUT", "--map", "H100"], "is no MODEL=DEVICE"),
        (["jobs", str(EXAMPLE), *WORDS, "OUT", "--for", "0s"], "must be above 0"),
        (["jobs", str(EXAMPLE), *WORDS, "OUT", "--lenient", "-1"], "is no whole number"),
        (["jobs", str(EXAMPLE), *WORDS, "OUT", "--seed", "x"], "'x' is no whole number"),
    ],
)
def test_wrong_options(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A line that names the option, and 2."""
    with pytest.raises(SystemExit) as ended:
        main(["replay", *words])
    assert ended.value.code == 2
    assert problem in capsys.readouterr().err
