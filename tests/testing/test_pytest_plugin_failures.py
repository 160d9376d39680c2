"""The pytest plugin when something fails: a test, a start, a service, or pytest itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, sleep

import pytest

from fakedev.client import Fleet, NoAnswer
from tests.support.programs.processes import PATIENCE_SECONDS
from tests.testing.projects import ARGUMENTS, run

pytestmark = pytest.mark.usefixtures("project")
pytest_plugins = ["pytester"]


@pytest.mark.real
@pytest.mark.slow
def test_a_failed_test(pytester: pytest.Pytester) -> None:
    """Its report has the configuration, the journal, and the command that runs it again, which works."""
    pytester.makepyfile("""
        def test_fails(fakedev_fleet):
            fakedev_fleet.fault("fan", devices="dgx-0/0")
            fakedev_fleet.advance("2m")
            assert False
    """)
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([
        "*- fakedev configuration -*", "*devices-per-node: 8*", "*- fakedev journal -*", "tick 0  fault  f1  fan on *",
        "tick 1  began  dgx-0/0  fan began", "*- fakedev record -*", "Run it again: fakedev render *",
    ])  # fmt: skip
    (line,) = [line for line in result.stdout.str().splitlines() if line.startswith("Run it again: fakedev ")]
    start = "from fakedev.commands.services import fakedev; fakedev()"
    command = f"{sys.executable} -c '{start}' {line.removeprefix('Run it again: fakedev ')}"
    again = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert "# page tick=120" in again.stdout


@pytest.mark.real
@pytest.mark.slow
def test_what_cannot_start(pytester: pytest.Pytester) -> None:
    """The test's line, and fakedev's own words; a service that is too slow shows its log."""
    pytester.makepyfile("""
        import pytest

        @pytest.mark.fakedev(config="missing.yaml")
        def test_missing(fakedev_fleet): ...

        @pytest.mark.fakedev(config="version: 1\\nflet: {}\\n")
        def test_wrong(fakedev_fleet): ...

        @pytest.mark.fakedev("fleet.yaml")
        def test_argument(fakedev_fleet): ...

        @pytest.mark.fakedev(configuration="fleet.yaml")
        def test_name(fakedev_fleet): ...
    """)
    result = run(pytester)
    result.assert_outcomes(errors=4)
    shown = result.stdout.str()
    for text in (
        "test_what_cannot_start.py:3: fakedev: config: there is no missing.yaml in ",
        "fakedev.yaml:2: unknown key 'flet'; did you mean 'fleet'?",
        "test_what_cannot_start.py:9: fakedev: the marker takes only keyword arguments",
        "fakedev: configuration: is nothing that a fleet takes; did you mean config?",
    ):
        assert text in shown, text
    assert "Traceback" not in shown
    pytester.makepyfile("def test_slow(fakedev_fleet): ...")
    result = run(pytester, "--fakedev-timeout=0")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fakedev: it was not ready within 0 s (--fakedev-timeout). Its log:*"])


@pytest.mark.real
@pytest.mark.slow
def test_a_service_that_dies(pytester: pytest.Pytester) -> None:
    """The report of the test has the log; the next test has another one; --fakedev-keep keeps what was written."""
    pytester.makepyfile("""
        import os, signal

        def test_dies(fakedev_fleet):
            os.kill(fakedev_fleet.pid, signal.SIGKILL)
            fakedev_fleet.advance("1h")

        def test_next(fakedev_fleet):
            assert fakedev_fleet.clock().tick == 0
    """)
    result = run(pytester, "--fakedev-keep", "--basetemp=kept")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*- fakedev log -*", "*The service does not answer: no answer to *"])
    for folder in ("fakedev0", "fakedev1"):
        files = {path.name for path in Path(pytester.path, "kept", folder).iterdir()}
        assert {"fakedev.yaml", "record.jsonl", "fakedev.log"} <= files


@pytest.fixture
def blocked(pytester: pytest.Pytester) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A pytest whose test waits with its fleet; and the address of that."""
    pytester.makepyfile("""
        import os, time

        def test_waits(fakedev_fleet):
            with open("url.new", "w") as file:
                file.write(fakedev_fleet.url)
            os.rename("url.new", "url")
            time.sleep(1000)
    """)
    command = [sys.executable, "-m", "pytest", *ARGUMENTS, "--basetemp=kept"]
    # What runs in the background of a script ignores SIGINT, and so would this.
    heed = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    process = subprocess.Popen([sys.executable, "-c", heed, *command], cwd=pytester.path, stdout=subprocess.DEVNULL)
    file = Path(pytester.path, "url")
    deadline = monotonic() + PATIENCE_SECONDS
    while not file.exists() and monotonic() < deadline:
        assert process.poll() is None
        sleep(0.02)
    yield process, file.read_text()
    process.kill()
    process.wait()


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_nothing_is_left(
    pytester: pytest.Pytester, blocked: tuple[subprocess.Popen[bytes], str], number: signal.Signals
) -> None:
    """After ^C and after kill -9 of pytest the service ends; after ^C its files are gone, too."""
    process, url = blocked
    assert Fleet(url).clock().tick == 0
    os.kill(process.pid, number)
    process.wait(PATIENCE_SECONDS)
    deadline = monotonic() + PATIENCE_SECONDS
    while True:
        try:
            Fleet(url).clock()
        except NoAnswer:
            break
        assert monotonic() < deadline, "the service still answers"
        sleep(0.02)
    if number == signal.SIGINT:
        assert not Path(pytester.path, "kept", "fakedev0").exists()
