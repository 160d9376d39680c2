"""The helper for real programs itself: a helper that waits for ever or leaves programs behind spoils every test."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.programs.processes import PATIENCE_SECONDS, REQUIRE_REAL, Program, require_program

Start = Callable[..., Program]


def python(code: str) -> list[str]:
    """A command that runs a bit of Python."""
    return [sys.executable, "-c", code]


def test_text_and_code(start_program: Start) -> None:
    """What is written on either stream is seen, and the exit code is told."""
    program = start_program(python("import sys; print('to stdout'); print('to stderr', file=sys.stderr); sys.exit(3)"))
    assert program.wait_for_text("stdout") == "to stdout"
    assert program.wait_for_text("stderr") == "to stderr"
    assert program.wait() == 3


def test_much_output_does_not_block_it(start_program: Start) -> None:
    """Output is read while nobody waits for it."""
    program = start_program(python("print('x' * 5_000_000); print('end')"))
    assert program.wait() == 0
    assert len(program.stdout) > 5_000_000


def test_a_ready_file(start_program: Start, tmp_path: Path) -> None:
    """A file counts when something is in it."""
    ready = tmp_path / "ready"
    ready.touch()
    code = f"import time; f = open({str(ready)!r}, 'w'); f.write('here'); f.close(); time.sleep(60)"
    program = start_program(python(code))
    assert program.wait_for_file(ready) == "here"
    assert program.stop(signal.SIGKILL) == 128 + signal.SIGKILL


def test_a_program_that_ends_early_is_not_waited_for(start_program: Start) -> None:
    """A failure shows what the program said."""
    program = start_program(python("import sys; sys.exit('no configuration')"))
    with pytest.raises(pytest.fail.Exception, match=r"(?s)ended with 1 without the text 'ready'.*no configuration"):
        program.wait_for_text("ready")


def test_a_program_that_never_says_it(start_program: Start) -> None:
    """The wait has an end."""
    program = start_program(python("import time; time.sleep(60)"))
    with pytest.raises(pytest.fail.Exception, match="without the text"):
        program.wait_for_text("ready", seconds=0.05)


def test_children_are_ended_too() -> None:
    """Nothing that a program started outlives the test, however deaf it is."""
    code = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = os.fork()\n"
        "print('child', child or os.getpid(), flush=True)\n"
        "time.sleep(60)\n"
    )
    with Program(python(code)) as program:
        child = int(program.wait_for_text("child ").split()[1])
        watched = os.pidfd_open(child)
    try:
        # The descriptor of a process is readable once it has ended.
        assert select.select([watched], [], [], PATIENCE_SECONDS)[0]
    finally:
        os.close(watched)


def test_a_missing_program_skips_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skipped with the reason by default; a failure where real tests are required."""
    monkeypatch.delenv(REQUIRE_REAL, raising=False)
    with pytest.raises(pytest.skip.Exception, match="no-such-program is not installed"):
        require_program("no-such-program")
    monkeypatch.setenv(REQUIRE_REAL, "1")
    with pytest.raises(pytest.fail.Exception, match="no-such-program is not installed"):
        require_program("no-such-program")
    assert require_program("sh").endswith("/sh")
