"""fakedev conform: which page is compared, what is printed, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fakedev.commands.main import main
from fakedev.commands.sample_page import sample_page
from fakedev.config.load import load
from fakedev.config.schema.files import Files
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
