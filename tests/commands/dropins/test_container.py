"""The entry point of the image: which program it starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.programs.processes import clean_environment

pytestmark = pytest.mark.real


@pytest.mark.parametrize(
    ("words", "variables", "code", "printed"),
    [
        (["sh", "-c", "echo begun; exit 3"], {}, 3, "begun"),
        (["no-such-program"], {}, 127, "cannot start no-such-program: no such file or folder"),
        (["/"], {}, 126, "cannot start /: this user has no permission for it"),
        (["--version"], {}, 0, "fakedev-dcgm-exporter version"),
        (["-c", "none"], {}, 2, "fakedev-dcgm-exporter: "),
        ([], {"NUM_FAKE_GPUS": "none"}, 2, "NUM_FAKE_GPUS: 'none' is no whole number"),
        ([], {"FAKEDEV__FLEET": "none"}, 2, "FAKEDEV__FLEET"),
    ],
)
def test_which_program(words: list[str], variables: dict[str, str], code: int, printed: str) -> None:
    """A command, options of dcgm-exporter, variables of dcgm-fake-gpu-exporter, and the service."""
    command = [sys.executable, "-m", "fakedev.commands.dropins.container", *words]
    done = subprocess.run(
        command, env=clean_environment(**variables), capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, printed in done.stdout + done.stderr) == (code, True), done.stderr
