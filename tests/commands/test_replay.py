"""fakedev replay: what it prints, writes and refuses, with its exit codes."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from fakedev.commands.main import main
from tests.fuzz.trace_targets import small_trace
from tests.support.paths import ROOT

_SMALL = str(ROOT / "etc" / "traces" / "small")


def said(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0, kind: str = "jobs") -> str:
    """What ``fakedev replay`` prints of a format; with another code than 0 what it says to standard error."""
    assert main(["replay", kind, *arguments]) == code
    told = capfd.readouterr()
    return told.err if code == 2 else told.out


def test_the_head_says_what_was_read_and_what_the_peak_will_be(capfd: pytest.CaptureFixture[str]) -> None:
    """Nodes with their device types, jobs with their peak, series."""
    assert said(capfd, _SMALL, "--usage", "60:20", "--check").splitlines() == [
        "nodes: 2 with 8 devices: A100 4 as a100, H100 4 as h100",
        "jobs: 5 in 901s, at the peak on 7.8 devices (98 %)",
        "series: 1, of 1 jobs",
        "usage made up: 60 % plus or minus 20, of 4 jobs",
    ]
    like = said(capfd, _SMALL, "--usage", "like=gentd26", "--seed", "3", "--check").splitlines()[-1]
    assert like.startswith("usage made up: like gentd26, seed 3: mean ") and like.endswith(" of 4 jobs")


def test_a_packed_log_of_json_and_a_table_whose_header_is_another_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of Philly and of Alibaba's v2020; a problem names file, line and reason."""
    folders = {name: tmp_path / name for name in ("philly", "pai")}
    for name, folder in folders.items():
        folder.mkdir()
        for file, text in small_trace(name).items():
            (folder / file).write_text(text)
    log = folders["philly"] / "cluster_job_log"
    log.with_suffix(".gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()
    told = said(capfd, str(folders["philly"]), "--device", "t4", "--check", kind="philly")
    assert "jobs: 2 in 542s, at the peak on 2.0 devices (100 %)" in told
    header = folders["pai"] / "pai_machine_spec.header"
    options = (str(folders["pai"]), "--usage", "60", "--device", "t4", "--check")
    header.write_text("machine,gpu_type,cap_cpu,cap_mem,cap_gpu\n")
    assert "failed in the trace, end well here: 1 jobs" in said(capfd, *options, kind="pai")
    header.write_bytes(b"\xff,x\n")
    assert f"{header}:1: is not UTF-8" in said(capfd, *options, code=2, kind="pai")


@pytest.mark.slow
def test_a_report_has_every_comparison_and_is_the_same_twice(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It ends with 0 when all bounds are met; two replays write the same bytes."""
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    for page in pages:
        text = said(capfd, _SMALL, "--usage", "60:20", "--tick", "5s", "--report", str(page))
        assert "MISSED" not in text
        assert text.count(" met") == 11
    assert pages[0].read_bytes() == pages[1].read_bytes()
    assert "<svg" in pages[0].read_text() and "https:" not in pages[0].read_text()


def test_a_job_that_has_to_wait_misses_its_bound(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The head names it, the report misses, and the exit code is 3."""
    (tmp_path / "nodes.csv").write_text("name,model,devices\nn,H100,1\n")
    (tmp_path / "jobs.csv").write_text("name,start,end,devices\na,0,60,1\nb,10,70,1\nhuge,0,9,2\n")
    text = said(capfd, str(tmp_path), "--usage", "9", "--report", str(tmp_path / "r.html"), code=3)
    assert "had to wait for a place: 1: b by 50s" in text
    assert "no place: no such node or model, or too many devices: 1: huge" in text
    assert "<li>huge: no place</li><li>b: 50 s later</li>" in (tmp_path / "r.html").read_text().replace("\n", "")


def test_a_written_scenario_is_one(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The scenario commands take it; it starts the jobs at the ticks of the replay."""
    path = str(tmp_path / "trace.yaml")
    said(capfd, _SMALL, "--usage", "60:20", "--output", path)
    assert main(["scenario", "run", path, "--check"]) == 0
    assert capfd.readouterr().out == f"{path}: good: 5 occurrences in 901s\n"


def test_packed_tables_are_read_and_broken_ones_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """gzip, by the name; what is cut off is told."""
    packed = gzip.compress((ROOT / "etc" / "traces" / "small" / "jobs.csv").read_bytes())
    (tmp_path / "jobs.csv.gz").write_bytes(packed)
    assert "jobs: 5" in said(capfd, str(tmp_path), "--usage", "60", "--device", "t4", "--check")
    (tmp_path / "jobs.csv.gz").write_bytes(packed[:-20])
    found = said(capfd, str(tmp_path), "--usage", "60", "--device", "t4", "--check", code=2)
    assert found == f"{tmp_path}/jobs.csv.gz: is not gzip, or is cut off: pack it again\n"
    assert said(capfd, "a" * 300, "--check", code=2) == f"{'a' * 300}/series.csv: the name is too long\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--check"], "the trace has no usage of 4 of 5 jobs"),
        (["--map", "G2=h100", "--check"], "--map: the trace has no nodes of the model 'G2'; its models are A100, H100"),
        (["--map", "H100=h10", "--check"], "no device type 'h10'"),
        (["--from", "1d", "--check"], "no job runs in that time"),
    ],
)
def test_a_replay_that_cannot_be_is_refused(
    arguments: list[str], problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """One line, with what to write; exit code 2."""
    assert problem in said(capfd, _SMALL, *arguments, code=2)


def test_lines_are_left_out_only_when_that_is_asked_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """All problems have file, line and column; with --lenient the head counts them."""
    (tmp_path / "jobs.csv").write_text("name,start,end\na,0,60\nb,x,1\nc,9,1\n")
    given = (str(tmp_path), "--usage", "60", "--device", "t4", "--check")
    found = said(capfd, *given, code=2)
    assert [line.split(": ")[:2] for line in found.splitlines()] == [
        [f"{tmp_path}/jobs.csv:3", "column start"], [f"{tmp_path}/jobs.csv:4", "column end"],
    ]  # fmt: skip
    assert "left out: line that cannot be used: 2: " in said(capfd, *given, "--lenient", "2")


def test_options_that_cannot_be_used_are_refused(capfd: pytest.CaptureFixture[str]) -> None:
    """A format, a mapping, a usage and a variant that there are not."""
    options = (
        ["--map", "x"], ["--usage", "200"], ["--variant", "x"], ["--seed", "-1"], ["--prices", "1:1"],
        ["--what-if", "--devise a"], ["--what-if", "'"], ["--what-if", "--nodes 1", "--check"],
    )  # fmt: skip
    for arguments in (["jobx", "d"], ["jobs"], *(["jobs", "d", *option] for option in options)):
        with pytest.raises(SystemExit) as caught:
            main(["replay", *arguments])
        assert caught.value.code == 2
        assert capfd.readouterr().err.startswith("fakedev replay")


def test_more_memory_than_devices_have(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The head names the job; the report says when and why it ended, and misses its bounds."""
    (tmp_path / "nodes.csv").write_text("name,devices\nn0,1\n")
    (tmp_path / "jobs.csv").write_text("name,start,end,devices\nwide,0,600,1\n")
    (tmp_path / "series.csv").write_text("time,job,usage,memory\n0,wide,10,2GiB\n300,wide,10,20GiB\n")
    options = ["replay", "jobs", str(tmp_path), "--device", "t4", "--tick", "60s"]
    assert main([*options, "--report", str(tmp_path / "page.html")]) == 3
    told = capfd.readouterr()
    line = "end early, with more memory than their devices have: 1: wide (20.0 GiB; t4-16gb has 14.6)"
    assert line in told.out.splitlines()
    assert "note: wide: ended at 360 s: Limit DCGM_FI_DEV_FB_USED reached, terminated" in told.err
    assert main([*options, "--check"]) == 0
    assert line in capfd.readouterr().out.splitlines()


@pytest.mark.slow
def test_what_if(capfd: pytest.CaptureFixture[str]) -> None:
    """Other boards, fewer nodes and a lower cap, side by side; costs are those of all boards and of the energy."""
    cap = "--set 'faults=[{kind: power-cap, watts: 200, devices: all}]'"
    asked = [f"--what-if={text}" for text in ("--device h200", "--nodes 1", cap)]
    head, *lines = said(capfd, _SMALL, "--usage", "60:20", *asked, "--prices", "2:0").splitlines()
    titles = re.split(" {2,}", head.strip())
    rows = [dict(zip(titles, re.split(" {2,}", line.strip())[1:], strict=True)) for line in lines]
    given, _, fewer, capped = rows
    assert [row["BOARDS"] for row in rows] == ["8", "8", "4", "8"]
    assert (given["NO PLACE"], fewer["NO PLACE"]) == ("0", "1")
    energy = [float(row["ENERGY"].removesuffix(" kWh")) for row in rows]
    assert energy[1] > energy[0] > energy[2] > energy[3]
    assert (given["THROTTLED"], capped["THROTTLED"]) == ("0.00 h", "0.95 h")
    # 8 boards for a quarter of an hour.
    assert (given["COST"], fewer["COST"]) == ("4.00", "2.00")
