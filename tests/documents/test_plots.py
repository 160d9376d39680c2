"""The plots of doc/simulation.md are what the simulation does today."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.paths import ROOT

PLOTS = ROOT / "doc" / "plots"
#: Plots of a whole day.
DAYS = ("day", "day-of-64")
OTHERS = (
    "drawn-values", "job", "power-throttle", "profiles", "profiles-heat", "thermal-throttle", "value-functions",
)  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("names", [OTHERS, DAYS], ids=["short", "days"])
def test_the_plots_are_current(tmp_path: Path, names: tuple[str, ...]) -> None:
    """The script runs, and draws the committed files byte for byte."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, PLOTS / "draw.py", tmp_path, *names], check=True, env=environ, cwd=tmp_path)
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(names)
    for name in names:
        how = f"{name}.svg is out of date: run PYTHONPATH=. python doc/plots/draw.py"
        assert (tmp_path / f"{name}.svg").read_bytes() == (PLOTS / f"{name}.svg").read_bytes(), how


def test_the_script_draws_all_of_them() -> None:
    """No plot that it knows is left out here."""
    script = (PLOTS / "draw.py").read_text(encoding="utf-8")
    assert sorted(re.findall(r'^    "([a-z0-9-]+)": \w+,$', script, re.MULTILINE)) == sorted(DAYS + OTHERS)


def test_the_documentation_shows_them() -> None:
    """Each is a separate document, embedded in the page."""
    page = (ROOT / "doc" / "simulation.md").read_text(encoding="utf-8")
    for name in DAYS + OTHERS:
        assert f"](plots/{name}.svg)" in page
        assert ElementTree.parse(PLOTS / f"{name}.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
