"""fakedev conform: which page is compared, what is printed, and how it ends."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fakedev.commands.main import main
from fakedev.commands.sample_page import sample_page
from fakedev.config.load import load
from fakedev.config.schema.files import Files
from fakedev.exposition.captured import read_page
from fakedev.exposition.label_cache import LabelCache
from fakedev.exposition.page import Page
from fakedev.exposition.sources import DeviceSource
from fakedev.sim.fleet import Fleet
from tests.support.identities import TITLES, loaded


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """A page of dcgm@4.8.3 on L40S boards, kept in a file."""
    path = tmp_path / "scrape.prom"
    path.write_text(sample_page("dcgm@4.8.3", "l40s")[1])
    return path


@pytest.mark.slow
def test_identity_and_device_are_told_by_the_page(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of three identities with the same families it is the one of this version."""
    assert main(["conform", "--against", str(capture), "--min", "100"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"dcgm@4.8.3 on l40s-48gb against {capture}: 100.0 % (")
    assert said.count("\n") == 1


def test_a_verdict_that_is_not_met(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 3, with the differences."""
    assert main(["conform", "--against", str(capture), "--identity", "dcgm@3.0", "--min", "90"]) == 3
    captured = capsys.readouterr()
    assert "DCGM_FI_DEV_FB_RESERVED: only the capture has it" in captured.out
    assert "is less than --min 90" in captured.err


def test_a_page_of_a_file(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In place of an identity; of a fragment what it has not is not missed."""
    part = tmp_path / "part.prom"
    part.write_text("".join(capture.read_text().splitlines(keepends=True)[:4]))
    assert main(["conform", "--against", str(part), "--page", str(capture), "--fragment", "--min", "100"]) == 0
    assert main(["conform", "--against", str(part), "--page", str(capture), "--min", "100"]) == 3
    assert f"{capture} against {part}: 100.0 % (8 of 8 aspects)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "arguments", "reason"),
    [
        (None, [], "no such file or folder"),
        ("root:x:0:0", [], "line 1 is no sample"),
        ("# nothing\n", [], "there is no metric in it"),
        ("unheard_of 1\n", [], "no identity has any of its families; name one with --identity"),
        ("a 1\n", ["--identity", "dcmg"], "did you mean 'dcgm'?"),
        ("a 1\n", ["--identity", "dcgm", "--device", "h1000"], "no device type 'h1000'"),
    ],
)
def test_what_cannot_be_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, arguments: list[str], reason: str
) -> None:
    """Exit 2, and why."""
    path = tmp_path / "capture"
    if text is not None:
        path.write_text(text)
    assert main(["conform", "--against", str(path), *arguments]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("title", [title for title in TITLES if loaded(title).openmetrics])
def test_openmetrics(title: str) -> None:
    """The page of an exporter that negotiates it is good OpenMetrics."""
    pool = f"{{name: p, nodes: [n], device: max-1550, devices-per-node: 2, identity: '{title}'}}"
    configuration = load(
        None, Files(environ={}), text=f"fleet: {{pools: [{pool}]}}\nweb: []\nworkloads: {{listen: []}}"
    )
    fleet = Fleet(configuration.fleet)
    page = Page(LabelCache(configuration.identities["p"], DeviceSource(fleet)), fleet.roster.nodes, openmetrics=True)
    families = list(text_string_to_metric_families(page.render(fleet.state).decode() + "# EOF\n"))
    assert families


@pytest.mark.parametrize("text", ["200", "-1", "most", "nan"])
def test_a_percentage_that_is_none(text: str, misuse: Callable[..., str]) -> None:
    """An error of usage, in words."""
    said = misuse(main, "conform", "--against", "x", f"--min={text}")
    assert f"{text!r} is no percentage from 0 to 100" in said


def lines_of(capture: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """What is printed of a capture."""
    main(["conform", "--against", str(capture), *arguments])
    return capsys.readouterr().out.splitlines()


@pytest.mark.slow
def test_a_board_that_is_unknown(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Is said to be; the nearest is named, by the page."""
    capture.write_text(capture.read_text().replace("NVIDIA L40S", "NVIDIA Unheard-of 1"))
    score, note, *_ = lines_of(capture, capsys)
    assert score.startswith("dcgm@4.8.3 on l40s-48gb against ")
    assert note == (
        "  note: the board 'NVIDIA Unheard-of 1' is in no device type: compared with the nearest, l40s-48gb"
    )
    assert not [line for line in lines_of(capture, capsys, "--device", "l40s") if "no device type" in line]


def test_boards_that_are_idle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A capture of idle boards is compared with such a page, one of a busy board with the usual one."""
    for is_idle, said in ((True, " (idle)"), (False, "")):
        path = tmp_path / str(is_idle)
        path.write_text(sample_page("nvidia-gpu-exporter@1", "h100", is_idle=is_idle)[1])
        score = lines_of(path, capsys, "--identity", "nvidia-gpu-exporter@1", "--device", "h100")[0]
        assert score.startswith(f"nvidia-gpu-exporter@1 on h100{said} against {path}: 100.0 % (")


def test_rows_only(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a fragment without HELP and TYPE, these do not count; of a page they do."""
    rows = [line for line in capture.read_text().splitlines(keepends=True) if not line.startswith("#")]
    capture.write_text("".join(rows[:6]))
    assert "100.0 % (16 of 16 aspects)" in lines_of(capture, capsys, "--fragment", "--identity", "dcgm@4.8.3")[0]
    assert "  texts (HELP): 3" in lines_of(capture, capsys, "--identity", "dcgm@4.8.3")


def test_boards_that_are_to_be_divided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """MIG is on and there is no instance: no use of the whole board, with profiling fields or without."""
    page = read_page(sample_page("dcgm@4.8.2", "a100")[1])
    whole = {name for name in page.families if re.search("_UTIL|REMAP|PCIE_[TR]X", name)}
    assert len(whole) == 9
    profiling = {name for name in page.families if "_PROF_" in name}
    for number, gone in enumerate((whole, whole | profiling)):
        path = tmp_path / str(number)
        path.write_text(without(sample_page("dcgm@4.8.2", "a100")[1], gone))
        (line,) = lines_of(path, capsys, "--identity", "dcgm@4.8.2")
        assert line.startswith("dcgm@4.8.2 on a100-sxm4-40gb (MIG on, no instance) against")
        assert ": 100.0 % (" in line


def without(page: str, names: set[str]) -> str:
    """A page without some families."""
    kept = (line for line in page.splitlines() if line.removeprefix("# HELP ").removeprefix("# TYPE ").partition(" ")[0]
            .partition("{")[0] not in names)
    return "".join(f"{line}\n" for line in kept)


def test_a_version_that_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest of all is named, with the next ones, and what differs by kind."""
    path = tmp_path / "page"
    text = sample_page("dcgm@4.8.2", "h100")[1]
    path.write_text(text.replace('Hostname="', 'host="').replace("(in MiB)", "(in bytes)").replace(".000000", ".0"))
    score, note, *rest = lines_of(path, capsys)
    assert score.startswith("dcgm@")
    assert note.startswith("  note: the nearest of 11 identities; next: dcgm@")
    kinds = [line for line in rest if not line.startswith("    ")]
    assert [kind.partition(":")[0].strip() for kind in kinds] == ["texts (HELP)", "labels", "formats of numbers"]


@pytest.mark.slow
def test_reports(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], misuse: Callable[..., str]) -> None:
    """As JSON and as HTML, in which texts are escaped; other files are an error of usage, others cannot be written."""
    capture.write_text(capture.read_text().replace("GPU temperature (in C).", "<script>"))
    files = [tmp_path / name for name in ("report.json", "report.html")]
    assert main(["conform", "--against", str(capture), *(f"--report={path}" for path in files)]) == 0
    best = json.loads(files[0].read_text())["scores"][0]
    assert (best["page"], list(best["differences"])) == ("dcgm@4.8.3 on l40s-48gb", ["HELP"])
    assert best["differences"]["HELP"][0]["family"] == "DCGM_FI_DEV_GPU_TEMP"
    html = files[1].read_text()
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert "does not end in .html or .json" in misuse(main, "conform", "--against", "x", "--report=x.txt")
    assert main(["conform", "--against", str(capture), f"--report={tmp_path / 'none' / 'x.json'}"]) == 1
    assert "no such file or folder" in capsys.readouterr().err
