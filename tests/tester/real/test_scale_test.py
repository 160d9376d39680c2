"""fakedev scale-test with real backends: a straight line, a shared bottleneck, and what ends it early."""

from __future__ import annotations

import json
import shlex
import signal
from typing import Any

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import eventually, fetch
from tests.support.programs.load import Stand
from tests.support.programs.processes import AsyncProgram, console, require_program

pytestmark = pytest.mark.real


def backend_command(stand: Stand, *arguments: str, protocol: str = "json") -> str:
    words = [*console("fakedev-backend"), "-faddr", stand.workers, "-protocol", protocol, "-backoff", "1", *arguments]
    return shlex.join(words)


def scale_test(stand: Stand, *arguments: str) -> AsyncProgram:
    times = ["-settle", "500ms", "-measure", "4s"]
    return stand.start([*console("fakedev"), "scale-test", "-faddr", stand.clients, *times, *arguments])


async def backends_become(stand: Stand, count: int) -> None:
    """Wait until the frontend knows of so many backends."""

    async def is_so() -> bool:
        page = (await fetch(stand.metrics, "/metrics")).body.decode()
        values = [line.rpartition(" ")[2] for line in page.splitlines() if line.startswith("fakedev_queue_workers{")]
        return sum(int(float(value)) for value in values) == count

    await eventually(is_so, f"the frontend knows of {count} backends")


@pytest.mark.long
@pytest.mark.alone
@pytest_twisted.ensureDeferred
async def test_backends_that_share_nothing(stand: Stand) -> None:
    """1, 2, 4, 8 that sleep: a straight line, without a knee."""
    test = scale_test(stand, "-start", backend_command(stand, "sleep", "0.5"), "-json", "0.5")
    assert await test.wait() == 0, test.stderr
    told: dict[str, Any] = json.loads(test.stdout)
    assert [step["backends"] for step in told["steps"]] == [1, 2, 4, 8]
    assert 1 < told["steps"][0]["rate"] < 2.3  # a machine that is busy starts commands later
    assert all(1.5 < doubling["speed-up"] < 2.6 for doubling in told["doublings"])
    assert told["law"]["limit"] == "none up to 8 backends: throughput grows with them"
    await backends_become(stand, 0)


@pytest.mark.long
@pytest.mark.alone
@pytest_twisted.ensureDeferred
async def test_a_shared_bottleneck(stand: Stand) -> None:
    """A lock that each run holds for half of its time: a second backend helps, no further one does."""
    flock = require_program("flock")
    script = stand.folder / "work.sh"
    script.write_text(f"#!/bin/sh\nsleep 0.2; exec {flock} {stand.folder}/lock sleep 0.2\n")
    script.chmod(0o755)
    test = scale_test(stand, "-start", backend_command(stand, "-ignore", str(script)), "-json")
    assert await test.wait() == 3, test.stderr
    told: dict[str, Any] = json.loads(test.stdout)
    low, high = told["law"]["knee-interval"]
    assert low <= told["law"]["knee-backends"] <= high
    assert 1.2 < told["law"]["knee-backends"] < 4
    assert "runs get longer" in told["law"]["limit"]
    assert any("doubling to 8 backends brought" in failure for failure in told["failures"])


@pytest.mark.long
@pytest.mark.alone
@pytest_twisted.ensureDeferred
async def test_backends_that_the_user_starts(stand: Stand) -> None:
    """It says how many it waits for; backends of the original are counted while they work."""
    test = scale_test(stand, "-most", "2", "-wait", "60s", "0.2")
    for count in (1, 2):
        await test.wait_for_text(f"backends: {count - 1} of {count}")
        stand.start(shlex.split(backend_command(stand, "sleep", "0.2", protocol="bare")))
    assert await test.wait() == 0, test.stderr
    assert "PASS: each doubling brought at least 1.5" in test.stdout


@pytest.mark.long
@pytest.mark.alone
@pytest_twisted.ensureDeferred
async def test_a_command_that_sets_their_number(stand: Stand) -> None:
    """Each step calls it with its number."""
    script = stand.folder / "scale.sh"
    script.write_text(f"#!/bin/sh\necho $1 >> {stand.folder}/called\ntest $1 -lt 4\n")
    script.chmod(0o755)
    for _ in range(2):
        stand.backend("sleep", "0.2")
    test = scale_test(stand, "-scale", f"{script} {{n}}", "-protocol", "bare", "0.2")
    assert await test.wait() == 1
    assert (stand.folder / "called").read_text() == "1\n2\n4\n"
    assert f"fakedev scale-test: {script} 4: exit code 1" in test.stderr


@pytest.mark.parametrize(
    ("command", "reason"), [("/nowhere/program", "there is no program /nowhere/program"), ("false", "exit code 1")]
)
@pytest_twisted.ensureDeferred
async def test_backends_that_cannot_start(stand: Stand, command: str, reason: str) -> None:
    """One line with the reason, and exit code 1."""
    test = scale_test(stand, "-start", command)
    assert await test.wait() == 1
    assert reason in test.stderr
    assert test.stdout == "" and "Traceback" not in test.stderr


@pytest_twisted.ensureDeferred
async def test_being_stopped(stand: Stand) -> None:
    """^C ends it with the backends that it started, whatever the frontend does."""
    test = scale_test(stand, "-start", backend_command(stand, "sleep", "30"), "-measure", "60s", "30")
    await backends_become(stand, 1)
    stand.frontend.send_signal(signal.SIGSTOP)
    assert await test.stop(signal.SIGINT) == 130
    assert "it was stopped" in test.stderr
    stand.frontend.send_signal(signal.SIGCONT)
    await backends_become(stand, 0)
