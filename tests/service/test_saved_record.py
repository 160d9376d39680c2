"""The record of a service that keeps its state goes on after a restart: it is that of the whole run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.logger import LogEvent, formatEvent

from fakedev.commands.main import main
from fakedev.fleet.record import read_record
from fakedev.fleet.state_folder import generations
from fakedev.runtime.listening import CannotStart
from tests.support.application import BEGIN, SMALL, AppReactor, MemoryApplication, application
from tests.support.examples import examples
from tests.support.fleet.records import without_checksums
from tests.support.logged_errors import LoggedErrors
from tests.support.reloads import reload

WORK = {"name": "train", "devices": "a/0", "profile": "60:25:3,20:10:5"}
#: Configurations that a reload may put in place of each other; the last one only changes what pages show.
CHANGES = (("", ""), ("nodes: [a, b]", "nodes: [a, c]"), ("identity: dcgm", "identity: dcgm@4.6.0"))


class Run:
    """A run of several services, one after the other, in a folder, with its record and its state.

    :ivar seen: the page of each tick that was looked at; it is one page, whatever happened.
    """

    def __init__(self, folder: Path, change: int = 0) -> None:
        self.folder = folder
        self.record = folder / "run.jsonl"
        self.change = change
        self.seen: dict[int, bytes] = {}
        self._seconds = 0.0

    @property
    def text(self) -> str:
        """The configuration."""
        return f"{SMALL.replace(*CHANGES[self.change])}state: {self.folder}/state\n"

    @contextmanager
    def service(self) -> Iterator[MemoryApplication]:
        """The next service, a while after the one before."""
        self._seconds += 1000
        reactor = AppReactor()
        reactor.rightNow = BEGIN + self._seconds
        with application(self.text, record=str(self.record), reactor=reactor) as app:
            self.look(app)
            yield app

    def look(self, app: MemoryApplication) -> None:
        """Look at the page of this tick."""
        page = app.get("/metrics")
        tick = int(page.headers["x-fakedev-tick"])
        assert self.seen.setdefault(tick, page.body) == page.body, tick

    def tick(self, app: MemoryApplication, count: int = 1) -> None:
        """Ticks."""
        for _ in range(count):
            app.tick()
            self.look(app)

    @contextmanager
    def killed_here(self) -> Iterator[None]:
        """What happens in this context has never happened: the service was killed before."""
        with TemporaryDirectory() as copy:
            shutil.copytree(self.folder, copy, dirs_exist_ok=True)
            yield
            shutil.rmtree(self.folder)
            shutil.copytree(copy, self.folder)

    def check(self) -> None:
        """The record, run again from its beginning, has every page that was seen."""
        pages = self.folder / "pages"
        span = ("--for", f"{max(self.seen)}s", "--every", "1s", "--output", str(pages))
        assert main(["render", "--events", str(self.record), *span]) == 0
        for tick, page in self.seen.items():
            assert (pages / f"{tick}.prom").read_bytes() == page, tick


STEPS = st.one_of(
    st.tuples(st.sampled_from(("work", "connect", "stop", "fault", "clear", "reset", "advance"))),
    st.tuples(st.just("tick"), st.integers(1, 4)),
    st.tuples(st.just("reload"), st.sampled_from(range(len(CHANGES)))),
)
SERVICES = st.lists(
    st.tuples(st.sampled_from(range(len(CHANGES))), st.integers(0, 600), st.lists(STEPS, max_size=6)),
    min_size=2, max_size=4,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=examples(40), deadline=None)
@given(SERVICES, st.booleans())
def test_a_replay_of_the_record_is_the_run(services: list[tuple[int, int, list[tuple[str, int]]]], ends: bool) -> None:
    """Whatever happened, however services ended, and whatever of its end the record has lost with one that was killed.

    :param services: for each its configuration, how many bytes of its record are lost with it, and what happens.
    :param ends: whether services end in order.
    """
    with TemporaryDirectory() as folder:
        run = Run(Path(folder))
        for change, lost, steps in services:
            run.change = change
            with run.service() as app:
                size = run.record.stat().st_size
                for step in steps:
                    do(run, app, *step)
                if not ends:
                    with run.killed_here():
                        app.stop()
                    kept = max(size, run.record.stat().st_size - lost)
                    run.record.write_bytes(run.record.read_bytes()[:kept])
        with run.service() as app:
            run.tick(app)
        run.check()


def do(run: Run, app: MemoryApplication, what: str, number: int = 0) -> None:
    """What may happen to a fleet."""
    if what == "work":
        app.ask("POST", "/api/v1/workloads", WORK)
    elif what == "connect":
        app.connect().say("run mine devices=*/1 profile=50:20:2")
    elif what == "stop":
        app.ask("DELETE", "/api/v1/workloads/train")
    elif what == "fault":
        app.ask("POST", "/api/v1/faults", {"kind": "power-cap", "devices": "a/0", "watts": 200})
    elif what == "clear":
        for fault in app.json("/api/v1/faults")["faults"]:
            app.ask("DELETE", f"/api/v1/faults/{fault['id']}")
    elif what == "reset":
        app.ask("POST", "/api/v1/reset", {})
    elif what == "advance":
        app.ask("POST", "/api/v1/clock", {"advance": "7s"})
        run.look(app)
    elif what == "reload":
        run.change = number
        assert reload(app, run.text).status == 200
        run.look(app)
    else:
        run.tick(app, number)


@pytest.mark.slow
def test_a_record_that_was_never_made(tmp_path: Path) -> None:
    """The state of the first service has all events: a record can still be made of it, and of it alone."""
    run = Run(tmp_path)
    with run.service() as app:
        do(run, app, "work")
        run.tick(app, 3)
        with run.killed_here():
            app.stop()
    run.record.unlink()
    with run.service() as app:
        run.tick(app, 3)
    run.check()


def refused(run: Run, capsys: pytest.CaptureFixture[str]) -> str:
    """What a service says that does not start; its files stay as they were."""
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    with pytest.raises(SystemExit, match="the record cannot go on"), run.service():
        pass
    assert {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()} == before
    said = capsys.readouterr().err
    assert said.startswith(f"fakedev: the record cannot go on: {run.record}: ")
    assert "start without a record, or move the folder of the state away to begin anew" in said
    return said


@pytest.mark.slow
def test_what_is_not_its_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is left alone, and so is the state: one of another run, one that lacks events, and something else."""
    run, other = Run(tmp_path / "one"), Run(tmp_path / "other")
    for each in (run, other):
        each.folder.mkdir()
        with each.service() as app:
            do(each, app, "work")
            each.tick(app, 5 if each is run else 2)
            do(each, app, "fault")
            each.tick(app)
    with run.service():  # its snapshot at the start has the events of the service before
        pass
    record = run.record.read_bytes()
    lines = record.splitlines(keepends=True)
    head, count = orjson.loads(without_checksums(lines[0])), len(lines) - 1
    cases = [
        (other.record.read_bytes(), "it is the record of another run"),  # its epoch is the same, its events are not
        (orjson.dumps(head | {"epoch": 1.0}) + b"\n" + b"".join(lines[1:]), "it is the record of another run"),
        (record.replace(b'"seq":1', b'"seq":7', 1), "line 2 is damaged: start without a record"),
        (b"".join(lines[:2]), f"it ends with event 1, and its fleet has had {count}"),
        (b"", "it has no events, and its fleet has had "),
        (b"{}\n", "it is no record (line 1: not a record"),
        (b"no record\n", "it is no record (line 1: not JSON"),
    ]
    for content, text in cases:
        run.record.write_bytes(content)
        assert text in refused(run, capsys)
    run.record.write_bytes(record)
    with run.service() as app:
        run.tick(app)
    run.check()


@pytest.mark.slow
def test_a_service_that_could_not_begin(tmp_path: Path, logged_errors: LoggedErrors) -> None:
    """A record is there already, of another run: it stays, and the next service begins one of its own."""
    run = Run(tmp_path)
    run.record.write_bytes(b"of another run\n")
    with pytest.raises(CannotStart, match="there is a record already"), run.service():
        pass
    assert "there is a record already" in logged_errors.take_critical()[0]
    assert run.record.read_bytes() == b"of another run\n"
    following = Run(tmp_path / "following", change=1)
    shutil.copytree(tmp_path / "state", following.folder / "state")
    with following.service() as app:
        following.tick(app, 2)
    following.check()


@pytest.mark.slow
def test_events_that_the_state_has_lost(tmp_path: Path, log_events: list[LogEvent]) -> None:
    """As with a loss of power: they are removed, with a warning, because the fleet goes on from before them."""
    run = Run(tmp_path)
    with run.service() as app:
        do(run, app, "work")
        run.tick(app, 2)
        shutil.copytree(tmp_path / "state", tmp_path / "before")
        do(run, app, "fault")
        with run.killed_here():
            app.stop()
    shutil.rmtree(tmp_path / "state")
    shutil.move(tmp_path / "before", tmp_path / "state")
    with run.service() as app:
        text = f"the state has lost events of the record {run.record}, which are removed from it: 1"
        assert text in map(formatEvent, log_events)
        run.tick(app, 2)
    assert '"event":"fault"' not in run.record.read_text()
    run.check()


def test_the_numbers_of_events(tmp_path: Path) -> None:
    """They go on without a gap over all services, in one file with one head."""
    run = Run(tmp_path)
    for _ in range(3):
        with run.service() as app:
            do(run, app, "connect")
            run.tick(app, 2)
    _, events = read_record(run.record.read_bytes())
    assert [event.sequence for event in events] == [*range(1, len(events) + 1)]
    assert len(generations(str(tmp_path / "state"))) == 1
