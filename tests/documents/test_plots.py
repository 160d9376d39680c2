"""The plots of doc/simulation.md are what the simulation does today."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.paths import ROOT

PLOTS = ROOT / "doc" / "plots"
NAMES = [
    "day-of-64.svg", "day.svg", "drawn-values.svg", "job.svg", "power-throttle.svg", "profiles-heat.svg",
    "profiles.svg", "thermal-throttle.svg", "value-functions.svg",
]  # fmt: skip


@pytest.mark.slow
def test_the_plots_are_current(tmp_path: Path) -> None:
    """The script runs, and draws the committed files byte for byte."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, PLOTS / "draw.py", tmp_path], check=True, env=environ, cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == NAMES
    for name in NAMES:
        how = f"{name} is out of date: run PYTHONPATH=. python doc/plots/draw.py"
        assert (tmp_path / name).read_bytes() == (PLOTS / name).read_bytes(), how


def test_the_documentation_shows_them() -> None:
    """Each is a separate document, embedded in the page."""
    page = (ROOT / "doc" / "simulation.md").read_text(encoding="utf-8")
    for name in NAMES:
        assert f"](plots/{name})" in page
        assert ElementTree.parse(PLOTS / name).getroot().tag == "{http://www.w3.org/2000/svg}svg"
