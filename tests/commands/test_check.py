"""``fakedev check``: states, logs of queues, records and journals, whole and damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.task import Clock

from fakedev.commands.check import check
from fakedev.commands.main import main
from fakedev.fleet.journal import JournalEntry
from fakedev.fleet.record import event_line, head_line
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.state_folder import CLUSTER_HEALTH, StateFolder
from fakedev.queues.log import LoggedJob, accepted_record, head_record
from tests.support.fleet.fleets import make_fleet, start
from tests.support.fleet.records import without_checksums

HEAD = RecordHead("1", 0.0, "/etc/fakedev.yaml")
ENTRY = JournalEntry(1, 1.0, "began", "dgx-0/0", "f1", "fan began", "dgx-0/0")


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
    state.keep(CLUSTER_HEALTH, '{"a/0": []}')
    state.stopService()
    (tmp_path / "record").write_bytes(b"".join(lines))
    (tmp_path / "journal").write_bytes(ENTRY.line() + ENTRY._replace(tick=2).line())
    (tmp_path / "queue").mkdir()
    job = accepted_record(LoggedJob(1, ("x",), 0.0, 50, False, 0.0), 0.0)
    (tmp_path / "queue" / "requests.log").write_bytes(head_record("media", 0) + job)
    return tmp_path


def test_whole(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (files / "queue" / "requests.log").open("ab") as log:
        log.write(b"75 fd6")
    assert main(["check", *(str(files / name) for name in ("state", "queue", "record", "journal"))]) == 0
    assert capsys.readouterr().out.replace(f"{files}/", "").splitlines() == [
        "state: the state of a fleet at tick 1, whole: 1 events",
        "queue: the log of the queue 'media', whole, but for an incomplete last line: 1 jobs",
        "record: a record, whole: 1 events",
        "journal: a journal, whole: 2 entries",
    ]


def test_of_older_versions(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without checksums, which a journal has from a restart on."""
    record, journal = files / "record", files / "journal"
    record.write_bytes(without_checksums(record.read_bytes()))
    journal.write_bytes(without_checksums(ENTRY.line()) + journal.read_bytes())
    assert main(["check", str(record), str(journal)]) == 0
    assert capsys.readouterr().out.replace(f"{files}/", "").splitlines() == [
        "record: a record, without checksums: 1 events",
        "journal: a journal, whole, the first 1 without checksums: 3 entries",
    ]
    journal.write_bytes(journal.read_bytes() + without_checksums(ENTRY.line()))
    assert main(["check", str(journal)]) == 1
    assert "line 4: its checksum does not fit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("state/since-1.jsonl", b"card0", b"card1", "the line is damaged: restore the file, or lose what follows: "),
        ("state/tick", b"1", b"2", "tick is damaged: the ticks since the last snapshot or event are lost"),
        ("queue/requests.log", b"media", b"mexia", "this is no log of requests"),
        ("record", b'"seq":1', b'"seq":2', "its checksum does not fit: restore it, or take the lines before it: "),
        ("journal", b"fan", b"fun", "line 1: its checksum does not fit"),
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


def mutated(content: bytes) -> Iterator[bytes]:
    """A byte changed, missing, or added: everywhere in short contents, else at fifty places."""
    for place in range(0, len(content), max(1, len(content) // 50)):
        before, byte, after = content[:place], content[place], content[place + 1 :]
        yield before + bytes([byte ^ 1]) + after
        yield before + after
        yield before + b"1" + content[place:]


@pytest.mark.parametrize(
    "name",
    [
        "state/snapshot-1", "state/since-1.jsonl", "state/tick", "state/cluster-health", "queue/requests.log", "record",
        "journal",
    ],
)  # fmt: skip
def test_no_damage_is_accepted_in_silence(files: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """The text is not the one for the whole file. A record needs no line break at its end."""
    path = files / name

    def said() -> str:
        check([str(files / name.split("/", maxsplit=1)[0])])
        return capsys.readouterr().out

    whole, good = path.read_bytes(), said()
    for number, content in enumerate(mutated(whole)):
        path.write_bytes(content)
        assert (said() == good) == (name == "record" and content == whole[:-1]), (number, content[:1000])


def test_neither(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path), str(tmp_path / "missing"), "/dev/zero"]) == 1
    assert capsys.readouterr().out.replace(str(tmp_path), "").splitlines() == [
        ": it has no state of a fleet and no log of a queue",
        "/missing: no such file or folder",
        "/dev/zero: it is not a regular file",
    ]
