"""The helper for real programs itself: if it waited for ever or left programs running, every test would suffer."""

from __future__ import annotations

import os
import select
import signal
import sys
from pathlib import Path

import pytest
import pytest_twisted

from tests.support.programs.asynchronous import eventually
from tests.support.programs.processes import REQUIRE_REAL, StartAsync, require_program, run


def python(code: str) -> list[str]:
    """A command that runs a bit of Python."""
    return [sys.executable, "-c", code]


@pytest_twisted.ensureDeferred
async def test_text_and_code(start_async: StartAsync) -> None:
    """What a program writes to either stream, and its exit code."""
    program = start_async(python("import sys; print('to stdout'); print('to stderr', file=sys.stderr); sys.exit(3)"))
    assert await program.wait_for_text("stdout") == "to stdout"
    assert await program.wait_for_text("stderr") == "to stderr"
    assert await program.wait() == 3


@pytest_twisted.ensureDeferred
async def test_much_output_does_not_block_it(start_async: StartAsync) -> None:
    """Output is read although no test waits for it."""
    program = start_async(python("print('x' * 5_000_000); print('end')"))
    assert await program.wait() == 0
    assert len(program.stdout) > 5_000_000


@pytest_twisted.ensureDeferred
async def test_a_ready_file(start_async: StartAsync, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    ready.touch()
    code = f"import time; f = open({str(ready)!r}, 'w'); f.write('here'); f.close(); time.sleep(60)"
    program = start_async(python(code))
    assert await program.wait_for_file(ready) == "here"
    assert await program.stop(signal.SIGKILL) == 128 + signal.SIGKILL


@pytest_twisted.ensureDeferred
async def test_a_program_that_ends_early_is_not_waited_for(start_async: StartAsync) -> None:
    """A failure shows what the program said."""
    program = start_async(python("import sys; sys.exit('no configuration')"))
    with pytest.raises(pytest.fail.Exception, match=r"(?s)ended with 1 without the text 'ready'.*no configuration"):
        await program.wait_for_text("ready")


@pytest_twisted.ensureDeferred
async def test_a_text_that_does_not_come(start_async: StartAsync) -> None:
    program = start_async(python("import time; time.sleep(60)"))
    with pytest.raises(pytest.fail.Exception, match="without the text"):
        await program.wait_for_text("ready", seconds=0.05)


@pytest_twisted.ensureDeferred
async def test_input_and_other_descriptors(start_async: StartAsync) -> None:
    """What the test writes is its input, whose end it sees; the numbers of its pipes are those that the test gave."""
    counted = await run(start_async, *python("import sys; print(len(sys.stdin.read()))"), text="x" * 300_000)
    assert (counted.exit_code, counted.stdout) == (0, "300000\n")
    program = start_async(python("import os; print(os.read(5, 9), flush=True); os.read(5, 1)"), descriptors={5: "w"})
    program.write("five", 5)
    assert await program.wait_for_lines(1) == ["b'five'"]
    assert program.exit_code is None


@pytest_twisted.ensureDeferred
async def test_children_are_ended_too(start_async: StartAsync) -> None:
    """Nothing that a program started outlives the test, although it ignores SIGTERM."""
    code = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = os.fork()\n"
        "os.write(1, b'child %d\\n' % (child or os.getpid()))\n"  # one call: the other process writes the same
        "time.sleep(60)\n"
    )
    program = start_async(python(code))
    child = int((await program.wait_for_text("child ")).split()[1])
    watched = os.pidfd_open(child)
    try:
        await program.kill()
        # The descriptor of a process is readable once it has ended.
        await eventually(lambda: select.select([watched], [], [], 0)[0], "the child has ended")
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
