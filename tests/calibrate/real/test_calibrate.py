"""A calibration from the raw samples of a real Prometheus."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_twisted

from fakedev.commands.main import main
from tests.exporters.real.test_prometheus import prometheus
from tests.support.paths import ROOT
from tests.support.programs.processes import StartAsync

PLAN = ROOT / "etc" / "calibration" / "plan.yaml"
WORK = ["--work", "376=tensor", "--work", "451=memory", "--work", "496=compute"]


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.requires_program("promtool")
@pytest_twisted.ensureDeferred
async def test_a_run_of_a_prometheus(
    start_async: StartAsync, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last minutes of the server: every coefficient is told, and one board is chosen by its labels."""
    pytest.importorskip("scipy")
    plan = tmp_path / "plan.yaml"
    lines = PLAN.read_text().splitlines(keepends=True)
    plan.write_text("".join(line for line in lines if "epoch" not in line))  # it ends now
    assert main(["scenario", "run", str(plan), "--blocks", str(tmp_path / "data")]) == 0
    server = await prometheus(start_async, tmp_path, "", "15s")
    given = ["calibrate", "--device", "h100", "--prometheus", f"http://{server}", "--range", "20m"]
    capsys.readouterr()
    assert main([*given, *WORK, "--only", "gpu=0"]) == 0
    printed = capsys.readouterr().out
    assert "name: my-h100-sxm5-80gb" in printed
    assert "# kept" not in printed
    assert main([*given, "--only", "gpu=7"]) == 1
    assert "no series shows usage_ratio" in capsys.readouterr().err
    assert main([*given, "--only", "g-pu=7"]) == 1
    assert "parse error: unexpected character" in capsys.readouterr().err
