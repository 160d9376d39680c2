"""``fakedev calibrate``: from a file with a run to a device type that fakedev reads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fakedev.calibrate.model import NOISE, POWER_LIMIT
from fakedev.calibrate.report import PHASES
from fakedev.commands.main import main
from fakedev.exporters.settings.catalog import Catalog
from fakedev.fleet.spec.device_types import DeviceType
from fakedev.schema.files import Files
from fakedev.schema.places import Place, Report
from tests.support.recorded_runs import catalog_type, recorded

pytest.importorskip("scipy")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    path = tmp_path / "run.csv"
    path.write_text(recorded(catalog_type("l4")))
    return path


def read(path: Path) -> DeviceType:
    """The device type of a file, as a configuration reads it."""
    report = Report()
    loaded = Catalog(Files(environ={}), report).device(str(path), Place("test"))
    report.raise_if_any()
    assert loaded is not None
    return loaded.type


@pytest.mark.slow
def test_a_run_becomes_a_device_type(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the catalog's facts and connections, and the coefficients of the run; everything twice to the same bytes."""
    given = ["calibrate", "--device", "l4", "--from", str(run), "--name", "mine", "--picture"]
    assert main([*given, str(tmp_path / "1.html")]) == 0
    first = capsys.readouterr()
    assert main([*given, str(tmp_path / "2.html")]) == 0
    assert capsys.readouterr() == first
    assert (tmp_path / "1.html").read_bytes() == (tmp_path / "2.html").read_bytes()
    assert (tmp_path / "1.html").read_text().count("<svg") == 3
    assert "clock-power-exponent" in first.err
    (tmp_path / "mine.yaml").write_text(first.out)
    board, catalog = read(tmp_path / "mine.yaml"), catalog_type("l4")
    assert board.name == "mine"
    assert (board.facts, board.connections, board.lacks) == (catalog.facts, catalog.connections, catalog.lacks)
    assert POWER_LIMIT.of(board) == 72
    assert NOISE.of(board) == pytest.approx(0.01, rel=0.05)


@pytest.mark.slow
def test_a_type_of_ones_own_with_short_names(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file may write quantities as people do, and sources as one text."""
    own = tmp_path / "own.yaml"
    own.write_text(
        "name: own\nranges: {usage: [0, 1], frequency: [210, 2040], power: [20, 60],\n"
        "  temperature: [30, 50]}\nmemory: {total: 1GiB}\n"
        "dynamics: {power-limit-watts: 70, inlet-celsius: 30, clocked-power-share: 0.3}\nsources: my meter\n"
    )
    if main(["calibrate", "--device", str(own), "--from", str(run)]) != 0:
        pytest.fail(capsys.readouterr().err)
    out = capsys.readouterr().out
    assert "before: my meter" in out


def test_the_plan_is_ten_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    """With the clock to lock, and the command for the run."""
    assert sum(phase.seconds for phase in PHASES) == 600
    assert main(["calibrate", "--device", "h100", "--plan"]) == 0
    printed = capsys.readouterr().out
    assert "nvidia-smi -lgc 1185" in printed
    assert "--work 375=tensor --work 450=memory --work 495=compute" in printed


FAULTS = {
    ("--device", "l4", "--from", "RUN", "--work", "5=games"): (2, "'5=games' is not SECONDS=KIND, as 120=tensor"),
    ("--device", "l4"): (2, "one of the arguments --from --prometheus --plan is required"),
    ("--device", "l5", "--plan"): (2, "no device type 'l5'"),
    ("--device", "l4", "--from", "none.csv"): (1, "none.csv: "),
    ("--device", "l4", "--prometheus", "ftp://x"): (2, "'ftp://x'"),
    ("--device", "l4", "--prometheus", "http://127.0.0.1:1"): (1, "http://127.0.0.1:1/"),
    ("--device", "h100", "--from", "SHORT"): (1, "2 samples, not 60 to 20000"),
}


@pytest.mark.parametrize("arguments", FAULTS)
def test_what_cannot_be_done(
    arguments: tuple[str, ...], run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """2 for wrong options, 1 for a run that cannot be used; never a traceback."""
    short = tmp_path / "short.csv"
    short.write_text("time,usage,power,clock,temperature\n1,2,3,4,5\n2,2,3,4,5\n")
    given = [{"RUN": str(run), "SHORT": str(short)}.get(argument, argument) for argument in arguments]
    code, text = FAULTS[arguments]
    try:
        found = main(["calibrate", *given])
    except SystemExit as ended:
        found = int(str(ended.code))
    shown = capsys.readouterr()
    assert (found, shown.out) == (code, "")
    assert text in shown.err


def test_without_scipy(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    assert main(["calibrate", "--device", "l4", "--from", str(run)]) == 3
    remedy = "pip install '.[calibrate]' in a checkout of fakedev, or 'FILE.whl[calibrate]'"
    assert capsys.readouterr().err == f"fakedev calibrate: this needs SciPy: {remedy}\n"
