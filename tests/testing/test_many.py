"""Hundreds of tests with a fleet each, side by side; and ten minutes of a board's life in a test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakedev.testing.order import DEFAULT, Order
from fakedev.testing.simulation import Simulation
from tests.testing.projects import run

pytestmark = pytest.mark.usefixtures("project")
pytest_plugins = ["pytester"]
#: Of these each has a service in a process of its own; xdist runs two of them at once.
_TESTS = 500


def processes_of(folder: Path) -> Iterator[str]:
    """The command lines of processes that work in a folder, or that name it."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or entry.name == str(os.getpid()):
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            where = os.readlink(entry / "cwd")
        except OSError:
            continue  # it has ended, or is that of another user
        if str(folder) in command or Path(where).is_relative_to(folder):
            yield f"{entry.name}: {command}"


@pytest.mark.real
@pytest.mark.long
def test_five_hundred_tests(pytester: pytest.Pytester) -> None:
    """Each has a fleet as new, two at the same moment; no process, with its sockets, and no file stays."""
    pytester.makepyfile(f"""
        import pytest

        @pytest.mark.parametrize("number", range({_TESTS}))
        def test_one(fakedev_fleet, number):
            assert fakedev_fleet.workloads() == []
            fakedev_fleet.run(f"train-{{number}}", devices="dgx-0/0", profile="95:0:0")
            assert fakedev_fleet.advance("10s").tick == 10
            assert fakedev_fleet.scrape("dgx-0").value("DCGM_FI_DEV_GPU_UTIL", gpu=0) == 95
    """)
    run(pytester, "--numprocesses=2", "--basetemp=kept").assert_outcomes(passed=_TESTS)
    assert list(processes_of(Path(pytester.path))) == []
    assert [path for path in Path(pytester.path, "kept").rglob("*") if path.is_file()] == []


@pytest.mark.slow
def test_ten_minutes_of_eight_boards(tmp_path: Path) -> None:
    """In a simulation, with work and a fault, and a page each minute: all of it in the time of a slow test."""
    sim = Simulation(Order(text=DEFAULT), tmp_path)
    sim.run("train", devices="dgx-0/*", profile="80:10:0")
    sim.fault("fan", devices="dgx-0/0", duration="5m")
    for _ in range(10):
        sim.advance("1m")
        assert len(sim.scrape()) > 100
    assert sim.clock().tick == 600
