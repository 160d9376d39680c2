"""The log as fields of systemd's journal, with a socket in the place of journald's."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.logger import LogLevel
from twisted.python.failure import Failure

from fakedev.net.system.journald import JournalSocket, datagram, is_journal, journal_fields
from fakedev.net.system.logging import LogLines, make_log


def event(text: str = "{peer} left", level: LogLevel = LogLevel.info, **fields: Any) -> dict[str, Any]:
    """An event as a Logger makes it."""
    return {"log_time": 1.0, "log_level": level, "log_namespace": "fakedev.x", "log_format": text, **fields}


def fields_of(data: bytes) -> dict[str, str]:
    """The fields of a datagram, as journald reads them."""
    found = {}
    while data:
        line, _, rest = data.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            (length,) = struct.unpack_from("<Q", rest)
            value, newline, rest = rest[8 : 8 + length], rest[8 + length : 9 + length], rest[9 + length :]
            assert newline == b"\n"
        found[name.decode()] = value.decode()
        data = rest
    return found


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[socket.socket]:
    """A socket in the place of journald's."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(str(tmp_path / "socket"))
        made.setblocking(False)
        yield made


def test_an_entry(tmp_path: Path, journal: socket.socket) -> None:
    """Text and level are the journal's own fields; ours begin with FAKEDEV_. The journal has the time itself."""
    sent = event(peer="p", n=3, ok=True, nothing=None, level=LogLevel.warn)
    assert JournalSocket(str(tmp_path / "socket")).send(sent)
    found = fields_of(journal.recv(65536))
    assert found.pop("SYSLOG_IDENTIFIER")
    assert found == {
        "MESSAGE": "p left", "PRIORITY": "4", "FAKEDEV_LOGGER": "fakedev.x", "FAKEDEV_PEER": "p", "FAKEDEV_N": "3",
        "FAKEDEV_OK": "true",
    }  # fmt: skip


@pytest.mark.parametrize(("level", "priority"), [("debug", "7"), ("info", "6"), ("error", "3"), ("critical", "2")])
def test_levels(level: str, priority: str) -> None:
    """They are those of syslog."""
    assert journal_fields(event(level=LogLevel.levelWithName(level), peer="p"))["PRIORITY"] == priority


def test_a_failure(tmp_path: Path, journal: socket.socket) -> None:
    """It has the place of the mistake and, on several lines, the traceback."""
    try:
        raise ValueError("two\nlines")
    except ValueError:
        failure = Failure()
    JournalSocket(str(tmp_path / "socket")).send(event("the tick failed", LogLevel.critical, log_failure=failure))
    found = fields_of(journal.recv(65536))
    assert (found["CODE_FILE"], found["CODE_FUNC"]) == (__file__, "test_a_failure")
    assert int(found["CODE_LINE"]) == failure.frames[-1][2]
    assert "two\nlines" in found["FAKEDEV_TRACEBACK"]


@given(st.dictionaries(st.from_regex(r"[A-Z][A-Z0-9_]{0,9}", fullmatch=True), st.text(st.characters(codec="utf-8"))))
def test_any_value(fields: dict[str, str]) -> None:
    """Whatever is in a value, the fields come back: a peer cannot make fields of its own."""
    assert fields_of(datagram(fields)) == fields


def test_names() -> None:
    """They have the characters and the length that the journal takes."""
    found = journal_fields(event("x", **{"Ä-b c": 1, "y" * 100: 2}))
    assert found["FAKEDEV___B_C"] == "1"
    assert found["FAKEDEV_" + "Y" * 56] == "2"


def test_what_the_journal_does_not_take(tmp_path: Path, journal: socket.socket) -> None:
    """A larger entry than a datagram, or one when journald does not run, is a line of JSON as before."""
    stream: IO[str]
    with (tmp_path / "log").open("w+") as stream:
        many = {f"field{number}": "x" * 4000 for number in range(100)}
        LogLines(stream, form="json", journal=JournalSocket(str(tmp_path / "socket")))(event("too large", **many))
        LogLines(stream, form="json", journal=JournalSocket(str(tmp_path / "none")))(event("not running"))
        stream.seek(0)
        assert [line.split('"text": ')[1][:8] for line in stream] == ['"too lar', '"not run']


def test_when_it_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, journal: socket.socket) -> None:
    """For JSON, where the stream is the one that JOURNAL_STREAM names."""
    path = str(tmp_path / "socket")
    with (tmp_path / "log").open("w+") as stream:
        status = Path(stream.name).stat()
        monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
        make_log(stream, Clock(), form="json", journal=path)(event(peer="p"))
        assert fields_of(journal.recv(65536))["MESSAGE"] == "p left"
        make_log(stream, Clock(), form="text", journal=path)(event(peer="as text"))
        monkeypatch.setenv("JOURNAL_STREAM", "1:1")
        make_log(stream, Clock(), form="json", journal=path)(event(peer="to a file"))
        stream.seek(0)
        first, second = stream
        assert "as text left" in first
        assert '"text": "to a file left"' in second


def test_streams_that_are_none() -> None:
    """What has no descriptor is not the journal."""
    assert not is_journal(object(), {"JOURNAL_STREAM": "1:1"})
    assert not is_journal(object(), {})
