"""Without a cluster and a topology the modules that are about clusters are not even imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Packages of the extras ``kubernetes`` and ``node``.
OF_EXTRAS = {"OpenSSL", "service_identity", "grpc", "google"}
#: What every program of Twisted with addresses imports; of the extras the first two, where they are installed.
TWISTED = "import twisted.internet.endpoints, twisted.web.server"


def loaded(code: str) -> set[str]:
    """The modules that a process has imported after some code."""
    ended = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(ended.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "from tests.support.application import MemoryApplication\nMemoryApplication()",
        "from tests.support.application import MemoryApplication\nMemoryApplication(drop_in=True)",
        "import fakedev.commands.main, fakedev.commands.dropins.exporter, fakedev.tap",
    ],
    ids=["the service", "the exporter", "the programs"],
)
def test_what_is_not_imported(code: str) -> None:
    """Neither the rooms of clusters, nor packages that are only for them: start-up time and memory are as before."""
    modules = loaded(code)
    assert {name for name in modules if name.startswith(("fakedev.kubernetes.c", "fakedev.node"))} == set()
    packages = {name.partition(".")[0] for name in modules}
    assert packages & OF_EXTRAS <= loaded(TWISTED)


@pytest.mark.slow
def test_what_is_imported_with_a_cluster() -> None:
    """The same look sees them where they are."""
    assert {"fakedev.kubernetes.cluster", "fakedev.kubernetes.controller"} <= loaded("import fakedev.kubernetes.part")
