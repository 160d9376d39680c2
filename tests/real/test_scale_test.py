"""fakedev scale-test with real backends: a straight line, a shared bottleneck, and what makes it give up."""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs.load import Stand
from tests.support.programs.processes import Program, console, require_program
from tests.support.programs.service import StartProgram, eventually, fetch

pytestmark = pytest.mark.real


@pytest.fixture
def stand(start_program: StartProgram, tmp_path: Path) -> Stand:
    """A frontend that runs, with free ports."""
    return Stand(start_program, tmp_path)


def backend_command(stand: Stand, *arguments: str, protocol: str = "json") -> str:
    """The command that starts a backend."""
    words = [*console("fakedev-backend"), "-faddr", stand.workers, "-protocol", protocol, "-backoff", "1", *arguments]
    return shlex.join(words)


def scale_test(stand: Stand, *arguments: str) -> Program:
    """A scale test of short steps."""
    times = ["-settle", "500ms", "-measure", "4s"]
    return stand.start([*console("fakedev"), "scale-test", "-faddr", stand.clients, *times, *arguments])


def backends_of(stand: Stand) -> int:
    """How many backends the frontend knows of."""
    page = fetch(stand.metrics, "/metrics").body.decode()
    values = [line.rpartition(" ")[2] for line in page.splitlines() if line.startswith("fakedev_queue_workers{")]
    return sum(int(float(value)) for value in values)


@pytest.mark.long
def test_backends_that_share_nothing(stand: Stand) -> None:
    """1, 2, 4, 8 that sleep: a straight line, whose knee is not in sight."""
    test = scale_test(stand, "-start", backend_command(stand, "sleep", "0.5"), "-json", "0.5")
    assert test.wait() == 0, test.stderr
    told: dict[str, Any] = json.loads(test.stdout)
    assert [step["backends"] for step in told["steps"]] == [1, 2, 4, 8]
    assert told["steps"][0]["rate"] == pytest.approx(2.0, rel=0.15)
    assert all(1.7 < doubling["speed-up"] < 2.3 for doubling in told["doublings"])
    assert told["law"]["limit"] == "none up to 8 backends: throughput grows with them"
    eventually(lambda: backends_of(stand) == 0, "the backends that were started have ended")


@pytest.mark.long
def test_a_shared_bottleneck(stand: Stand) -> None:
    """A lock that each run holds for half of its time: the second backend still pays, no further one does."""
    flock = require_program("flock")
    script = stand.folder / "work.sh"
    script.write_text(f"#!/bin/sh\nsleep 0.2; exec {flock} {stand.folder}/lock sleep 0.2\n")
    script.chmod(0o755)
    test = scale_test(stand, "-start", backend_command(stand, "-ignore", str(script)), "-json")
    assert test.wait() == 3, test.stderr
    told: dict[str, Any] = json.loads(test.stdout)
    low, high = told["law"]["knee-interval"]
    assert low <= told["law"]["knee-backends"] <= high
    assert 1.2 < told["law"]["knee-backends"] < 4
    assert "runs get longer" in told["law"]["limit"]
    assert any("doubling to 8 backends brought" in failure for failure in told["failures"])


@pytest.mark.long
def test_backends_that_somebody_else_starts(stand: Stand) -> None:
    """It says how many it waits for; backends of the original are seen while they work."""
    test = scale_test(stand, "-most", "2", "-wait", "60s", "0.2")
    for count in (1, 2):
        test.wait_for_text(f"backends: {count - 1} of {count}")
        stand.start(shlex.split(backend_command(stand, "sleep", "0.2", protocol="bare")))
    assert test.wait() == 0, test.stderr
    assert "PASS: each doubling brought at least 1.5" in test.stdout


@pytest.mark.long
def test_a_command_that_sets_their_number(stand: Stand) -> None:
    """Each step calls it with its number."""
    script = stand.folder / "scale.sh"
    script.write_text(f"#!/bin/sh\necho $1 >> {stand.folder}/called\ntest $1 -lt 4\n")
    script.chmod(0o755)
    for _ in range(2):
        stand.backend("sleep", "0.2")
    test = scale_test(stand, "-scale", f"{script} {{n}}", "-protocol", "bare", "0.2")
    assert test.wait() == 1
    assert (stand.folder / "called").read_text() == "1\n2\n4\n"
    assert f"fakedev scale-test: {script} 4: exit code 1" in test.stderr


@pytest.mark.parametrize(
    ("command", "reason"), [("/nowhere/program", "there is no program /nowhere/program"), ("false", "exit code 1")]
)
def test_backends_that_cannot_be_had(stand: Stand, command: str, reason: str) -> None:
    """One line that says why, and exit code 1."""
    test = scale_test(stand, "-start", command)
    assert test.wait() == 1
    assert reason in test.stderr
    assert test.stdout == "" and "Traceback" not in test.stderr


def test_being_stopped(stand: Stand) -> None:
    """^C ends it with the backends that it started, whatever the frontend does."""
    test = scale_test(stand, "-start", backend_command(stand, "sleep", "30"), "-measure", "60s", "30")
    eventually(lambda: backends_of(stand) == 1, "there is a backend")
    stand.frontend.process.send_signal(signal.SIGSTOP)
    assert test.stop(signal.SIGINT) == 1
    assert "it was stopped" in test.stderr
    stand.frontend.process.send_signal(signal.SIGCONT)
    eventually(lambda: backends_of(stand) == 0, "the backend has ended")
