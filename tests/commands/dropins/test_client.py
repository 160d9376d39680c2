"""fakedev-client: its options, and what its user sees."""

from __future__ import annotations

import io
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from fakedev.base.console import ProgressLine
from fakedev.commands.dropins.client import ClientOptions, Order, main, reason_of_none
from fakedev.queues.job import Answer, Outcome
from fakedev.schema.go_flags import FlagError
from fakedev.tester.load_run import LoadTester
from fakedev.tester.pages import make_load_pages
from fakedev.tester.plan import ClosedLoad, OpenLoad, Plan, Spacing
from fakedev.tester.statistics import Statistics
from tests.support.paths import ROOT


def order_of(*arguments: str) -> Order:
    """What these arguments ask for."""
    options = ClientOptions()
    return options.order(options.flags.parse(arguments))


def test_the_original_options() -> None:
    """With their defaults, one dash or two, in both forms."""
    order = order_of()
    assert order.plans == (Plan("sleep", "sleep", ClosedLoad(1, 2), "localhost:9997", (), 0.0, False),)
    assert order.control is not None and order.control.display == "localhost:9996"
    assert (order.headless, order.duration_seconds, order.verbose) == (False, 0.0, False)
    order = order_of(
        *("-caddr", ":7000", "--faddr=host:7001", "-name", "media", "-limit", "2.5"),
        *("-req-max", "600", "--req-now", "600", "-verbose", "a", "-y"),
    )
    assert order.plans == (Plan("media", "media", ClosedLoad(600, 600), "host:7001", ("a", "-y"), 2.5, False),)
    assert order.control is not None and order.control.display == "*:7000" and order.verbose


def test_the_open_model() -> None:
    """A rate, and what belongs to it."""
    order = order_of("-rate", "20/s", "-arrivals", "poisson", "-seed", "9", "-most-outstanding", "50", "-protocol=json")
    load = order.plans[0].load
    assert isinstance(load, OpenLoad)
    assert (load.spacing, load.seed, load.max_outstanding) == (Spacing.POISSON, 9, 50)
    assert order.plans[0].json_lines


def test_a_run_with_a_verdict() -> None:
    """As in the document."""
    order = order_of(
        *("--headless", "--duration", "60s", "--rate", "20/s", "--expect", "p99<2s", "--expect", "failures<1%"),
        *("--report", "out.html", "0.5"),
    )
    assert (order.headless, order.control, order.duration_seconds) == (True, None, 60.0)
    assert [expectation.text for expectation in order.expectations] == ["p99<2s", "failures<1%"]
    assert (order.reports, order.plans[0].arguments) == (("out.html",), ("0.5",))


def test_more_now_than_at_most() -> None:
    """When no maximum is given, it is the requested number."""
    assert order_of("-req-now", "8").plans[0].load == ClosedLoad(8, 8)


def test_a_file_of_plans(tmp_path: Path) -> None:
    """In place of what says one plan."""
    file = tmp_path / "plans.yaml"
    file.write_text("plans: [{queue: a, parallel: 2}, {queue: b, rate: 5/s}]")
    assert [plan.queue for plan in order_of("-plans", str(file)).plans] == ["a", "b"]
    with pytest.raises(FlagError, match="-name belongs in the file"):
        order_of("-plans", str(file), "-name", "a")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("-req-now", "3", "-req-max", "2"), "-req-now 3 is more than -req-max 2"),
        (("-name", ""), "-name must name a queue"),
        (("-rate", "fast"), "-rate: 'fast' is no rate"),
        (("-rate", "5/s", "-delay", "1s"), "-delay cannot be used with -rate"),
        (("-seed", "3"), "-seed needs -rate"),
        (("-rate", "5/s", "-arrivals", "odd"), "-arrivals: even or poisson, not 'odd'"),
        (("-protocol", "xml"), "-protocol: bare or json, not 'xml'"),
        (("-caddr", "host:port"), "-caddr: 'host:port' is no address"),
        (("-faddr", "host:port"), "-faddr: 'host:port' is no socket"),
        (("-expect", "fast"), "-expect: 'fast' is no expectation"),
        (("-report", "out.pdf"), "-report: 'out.pdf' does not end with .txt, .json, .csv or .html"),
        (("-plans", "/nowhere.yaml"), "no such file"),
        (("-req-max", "-1"), "-req-max: '-1' is no whole number from 0 up"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], reason: str, misuse: Callable[..., str]) -> None:
    """One line that says what is wrong, and exit code 2."""
    assert reason in misuse(main, *arguments)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


def test_progress_on_a_terminal() -> None:
    """One line, written again each time; it stays at the end."""
    stream = Terminal()
    line = ProgressLine(stream)
    line.tell("a long text")
    line.tell("short")
    line.end()
    line.end()
    assert stream.getvalue() == "\ra long text\x1b[K\rshort\x1b[K\n"
    assert line.seconds == 1.0


def test_progress_elsewhere() -> None:
    """Plain lines, less often."""
    stream = io.StringIO()
    line = ProgressLine(stream)
    line.tell("one")
    line.tell("two")
    line.end()
    assert stream.getvalue() == "one\ntwo\n"
    assert line.seconds == 10.0


def test_help_tells_all_options(capsys: pytest.CaptureFixture[str]) -> None:
    """Among them the original's."""
    with pytest.raises(SystemExit) as ended:
        main(["-help"])
    assert ended.value.code == 0
    told = re.findall(r"^  -([a-z-]+)", capsys.readouterr().out, re.MULTILINE)
    assert {"caddr", "faddr", "name", "limit", "req-max", "req-now", "verbose"} <= set(told)


def test_the_pages_of_the_document() -> None:
    """Its table names the paths that there are."""
    document = (ROOT / "doc" / "tester.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`/.*?) \|", document, re.MULTILINE)
    paths = {path for row in rows for path in re.findall(r"`/([a-z/-]+)", row)}
    tester = LoadTester([], lambda plan, asker: None, Clock())
    assert paths == {*make_load_pages(tester, changes=True), "-/metrics"}


@pytest.mark.slow
def test_no_frontend(tmp_path: Path) -> None:
    """A run that has reached none has measured nothing: its report is there, and it does not end with 0."""
    away = str(tmp_path / "none.sock")
    program = [sys.executable, "-m", "fakedev.commands.dropins.client"]
    command = [*program, "-headless", "-duration=200ms", f"-faddr={away}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1
    assert done.stderr.endswith(f"fakedev-client: no frontend was reached at {away}: start it, or give its address\n")
    assert "started                 0" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("expected", "code"), [("", 1), ("failures<1%", 3), ("failures>0", 0)])
def test_nobody_answers(short_folder: Path, expected: str, code: int) -> None:
    """A test of only zeros does not pass, unless that is what it expects."""
    address = str(short_folder / "silent.sock")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(address)
        silent.listen()
        command = [sys.executable, "-m", "fakedev.commands.dropins.client", "-faddr", address, "-headless"]
        command += ["-duration", "500ms", "-grace", "1s", "-rate", "20/s"]
        command += [*(["-expect", expected] if expected else []), "0.1"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == code, done.stderr
    assert ("fakedev-client: no request succeeded: start a frontend" in done.stderr) == (not expected)


def test_a_frontend_that_refuses_is_there() -> None:
    """Its words are the reason, the most frequent of them; the user needs to start nothing."""
    total = Statistics(0.0)
    silent = reason_of_none(total)
    for error in ("full", "no such queue", "no such queue"):
        total.answered(total.started(0.0, 0.0), Answer(Outcome.REFUSED, 1, error), 0.0)
    assert "no such queue" in reason_of_none(total)
    assert "-faddr" in silent
    assert "-faddr" not in reason_of_none(total)
