"""The figures of doc/reliability.md, measured for a short time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.programs.processes import clean_environment

pytestmark = pytest.mark.real


@pytest.mark.long
@pytest.mark.alone
def test_the_goals_are_met() -> None:
    """All figures, each with a service of its own: five minutes. Times that other programs decide are not judged."""
    command = [sys.executable, "benchmarks/run_reliability.py", "--short"]
    environment = clean_environment() | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("\n## ") >= 3 and "**missed**" not in done.stdout
