"""``fakedev check``: states, logs of queues, records and journals, whole and damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet.task import Clock

from fakedev.commands.main import main
from fakedev.fleet.record import event_line, head_line
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.state_folder import StateFolder
from fakedev.queues.log import LoggedJob, accepted_record, head_record
from tests.support.fleets import make_fleet, start

HEAD = RecordHead("1", 0.0, "/etc/fakedev.yaml")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A state, a log, a record and a journal of one event each."""
    state, lines = StateFolder(str(tmp_path / "state"), Clock()), [head_line(HEAD)]

    def record(stamped: object) -> None:
        state.record(stamped)  # type: ignore[arg-type]
        lines.append(event_line(stamped))  # type: ignore[arg-type]

    fleet = make_fleet(record=record)
    state.begin(fleet, HEAD)
    start(fleet)
    fleet.advance()
    state.ticked(())
    state.stopService()
    (tmp_path / "record").write_bytes(b"".join(lines))
    (tmp_path / "journal").write_text('{"tick": 1}\n')
    (tmp_path / "queue").mkdir()
    job = accepted_record(LoggedJob(1, ("x",), 0.0, 50, False, 0.0), 0.0)
    (tmp_path / "queue" / "requests.log").write_bytes(head_record("media", 0) + job + job.replace(b":1,", b":2,")[:9])
    return tmp_path


def test_whole(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *(str(files / name) for name in ("state", "queue", "record", "journal"))]) == 0
    assert capsys.readouterr().out.replace(f"{files}/", "").splitlines() == [
        "state: the state of a fleet at tick 1, whole: 1 events",
        "queue: the log of the queue 'media', whole, but for an incomplete last line: 1 jobs",
        "record: a record, whole: 1 events",
        "journal: a journal, whole: 1 entries",
    ]


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("state/since-1.jsonl", b"card0", b"card1", "the line is damaged: restore the file, or lose what follows: "),
        ("state/tick", b"1", b"2", "tick is damaged: the ticks since the last snapshot or event are lost"),
        ("queue/requests.log", b"media", b"mexia", "this is no log of requests"),
        ("record", b'"seq":1', b'"sex":1', "line 2"),
        ("journal", b": 1", b"  1", "line 1"),
    ],
)
def test_damaged(
    files: Path, capsys: pytest.CaptureFixture[str], name: str, old: bytes, new: bytes, said: str
) -> None:
    """The reason, and the remedy where there is one."""
    path = files / name
    path.write_bytes(path.read_bytes().replace(old, new))
    assert main(["check", str(files / name.split("/", maxsplit=1)[0])]) == 1
    shown = capsys.readouterr()
    assert said in shown.out
    assert shown.err == "fakedev check: 1 of 1 not whole\n"


def test_neither(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path), str(tmp_path / "missing"), "/dev/zero"]) == 1
    assert capsys.readouterr().out.replace(str(tmp_path), "").splitlines() == [
        ": it has no state of a fleet and no log of a queue",
        "/missing: no such file or folder",
        "/dev/zero: it is not a regular file",
    ]
