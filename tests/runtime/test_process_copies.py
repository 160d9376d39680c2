"""Work in a copy of the process."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from fakedev.base.errors import CannotWrite
from fakedev.runtime.processes import Outcome, run_in_copy


def end_of(outcome: Outcome) -> bool:
    """Whether work has succeeded, when it is done."""
    while (found := outcome()) is None:
        os.sched_yield()
    return found


def test_it_has_the_memory_of_the_moment(tmp_path: Path) -> None:
    """What changes later is not in what it writes."""
    values = ["now"]
    outcome = run_in_copy(lambda: (tmp_path / "file").write_text(" ".join(values)) and None)
    values.append("later")
    assert end_of(outcome)
    assert outcome()
    assert (tmp_path / "file").read_text() == "now"


def test_work_that_fails(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise OSError(28, "No space left on device")

    assert not end_of(run_in_copy(fail))
    assert "No space left on device" in capfd.readouterr().err


def test_work_that_finds_a_full_disk(capfd: pytest.CaptureFixture[str]) -> None:
    """It is no fault of the program: there is no traceback."""

    def fail() -> None:
        raise CannotWrite("/state/snapshot-1", OSError(28, ""))

    assert not end_of(run_in_copy(fail))
    assert capfd.readouterr().err == "/state/snapshot-1: the disk is full\n"


def test_it_holds_no_port(tmp_path: Path) -> None:
    listening = socket.create_server(("127.0.0.1", 0))

    def look() -> None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(listening.fileno())
        (tmp_path / "closed").touch()

    assert end_of(run_in_copy(look))
    assert (tmp_path / "closed").exists()
    listening.close()


def test_somebody_else_waits(tmp_path: Path) -> None:
    """When its end was told to somebody else, nothing is known of it: it counts as failed."""
    reading, writing = os.pipe()
    outcome = run_in_copy(lambda: None)
    os.close(writing)
    os.close(reading)
    os.waitpid(-1, 0)
    assert not end_of(outcome)
