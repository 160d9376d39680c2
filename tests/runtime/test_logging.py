"""The log: one line an entry for all that a peer sends, levels, JSON, and its place under twistd."""

from __future__ import annotations

import io
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.application import service
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import ILogObserver, LogEvent, LogLevel, LogPublisher, globalLogPublisher
from twisted.python.failure import Failure
from twisted.python.log import LogPublisher as OldPublisher

from fakedev.runtime.logs import (
    TRACEBACK_INDENT,
    LogFile,
    LoggedService,
    LogLines,
    json_line,
    text_line,
    twistd_log,
)

MOMENT = 1_700_000_000.25


def event(text: str = "{peer} left", level: LogLevel = LogLevel.info, **fields: Any) -> dict[str, Any]:
    """An event as a Logger makes it."""
    return {"log_time": MOMENT, "log_level": level, "log_namespace": "fakedev.x", "log_format": text, **fields}


def failed(reason: Exception) -> Failure:
    """A failure with a traceback."""
    try:
        raise reason
    except Exception:
        return Failure()


class Unprintable(Exception):
    """An exception that fails to give its text."""

    def __str__(self) -> str:
        raise ValueError("no text")


class TestLine:
    """Events as lines."""

    @pytest.mark.slow
    def test_text(self) -> None:
        assert text_line(event(peer="p")) == "2023-11-14T22:13:20.250Z info  p left\n"

    def test_json(self) -> None:
        entry = json.loads(json_line(event(peer="p", n=3, ratio=0.5, nan=float("nan"), ok=True, raw=b"\xff", obj=self)))
        assert entry == {
            "time": "2023-11-14T22:13:20.250Z",
            "level": "info",
            "logger": "fakedev.x",
            "text": "p left",
            "peer": "p",
            "n": 3,
            "ratio": 0.5,
            "nan": "nan",
            "ok": True,
            "raw": "\xff",
        }

    def test_a_field_cannot_pass_for_a_key_of_ours(self) -> None:
        assert json.loads(json_line({**event("x"), "text": "t", "level": "warn"}))["text"] == "x"

    def test_control_characters(self) -> None:
        """A peer can neither begin a new line nor speak to the terminal."""
        line = text_line(event(peer="a\nb\r\x1b[31m\x00\u2028\u202e\x85é\ud800"))
        assert line.endswith(r"a\nb\r\x1b[31m\x00\u2028\u202e\x85é\ud800 left" + "\n"), line

    def test_long_texts_are_cut(self) -> None:
        line = text_line(event(peer="x" * 1_000_000))
        assert len(line) < 4100
        assert "(1000005 characters)" in line
        entry = json.loads(json_line(event(peer="x" * 1_000_000)))
        assert len(entry["text"]) < 4100
        assert len(entry["peer"]) < 4100

    def test_tracebacks(self) -> None:
        failure = failed(ValueError("bad\nworse"))
        lines = text_line(event("it broke", LogLevel.critical, log_failure=failure)).splitlines()
        assert "critical it broke" in lines[0]
        assert len(lines) > 3
        assert all(line.startswith(TRACEBACK_INDENT) for line in lines[1:]), lines
        entry = json.loads(json_line(event("it broke", LogLevel.critical, log_failure=failure)))
        assert "ValueError: bad\nworse" in entry["traceback"]

    def test_a_failure_without_words(self) -> None:
        line, *_ = text_line(event("", LogLevel.critical, log_failure=failed(ValueError("bad")))).splitlines()
        assert "ValueError: bad" in line

    def test_an_unprintable_exception(self) -> None:
        assert "it broke" in text_line(event("it broke", log_failure=failed(Unprintable())))
        assert json.loads(json_line(event("it broke", log_failure=failed(Unprintable()))))

    def test_events_of_the_older_logging(self) -> None:
        lines: list[str] = []
        OldPublisher(publishPublisher=LogPublisher(lambda entry: lines.append(text_line(entry)[25:]))).msg("old\nway")
        assert lines == ["info  old\\nway\n"]


@given(st.text(), st.text())
def test_any_text_stays_on_its_line(peer: str, other: str) -> None:
    """For all that a peer sends, an entry is one line, in both forms, and JSON stays JSON."""
    entry = event("{peer} said {other}", peer=peer, other=other)
    text = text_line(entry)
    assert len(text.splitlines()) == 1
    assert text[:-1].isprintable()
    line = json_line(entry)
    assert len(line.splitlines()) == 1
    assert json.loads(line)["text"] == f"{peer} said {other}"


class TestLevel:
    """What is written at which level."""

    def written(self, level: str, *events: dict[str, Any]) -> list[str]:
        """The texts of the lines that are written at a level."""
        stream = io.StringIO()
        lines = LogLines(stream, level)
        for one in events:
            lines(one)
        return [line.split()[1] for line in stream.getvalue().splitlines()]

    def test_levels(self) -> None:
        events = [event("x", level) for level in LogLevel.iterconstants()]
        assert self.written("debug", *events) == ["debug", "info", "warn", "error", "critical"]
        assert self.written("warn", *events) == ["warn", "error", "critical"]

    def test_twisted_is_quiet(self) -> None:
        events = [
            {**event("x", level), "log_namespace": name}
            for name in ("log_legacy", "twisted.web.http")
            for level in (LogLevel.info, LogLevel.warn, LogLevel.critical)
        ]
        assert self.written("info", *events) == ["warn", "critical"] * 2
        assert self.written("debug", *events) == ["debug", "warn", "critical"] * 2

    def test_a_closed_stream_is_no_reason_to_fail(self) -> None:
        stream = io.StringIO()
        lines = LogLines(stream)
        stream.close()
        lines(event("x"))


class TestTwistd:
    """The log as a part of what twistd makes."""

    def test_the_application_gets_the_observer(self) -> None:
        """twistd asks the application for it after it was given the services."""
        observer = LogLines(io.StringIO())
        application = service.Application("fakedev")
        LoggedService(observer).setServiceParent(application)
        assert application.getComponent(ILogObserver) is observer

    def test_without_an_observer_twistd_decides(self) -> None:
        """Options that ask for another kind of log are obeyed."""
        application = service.Application("fakedev")
        LoggedService(None).setServiceParent(application)
        assert application.getComponent(ILogObserver, None) is None
        for options in ({"syslog": True}, {"logger": object()}, {"logfile": "-", "nodaemon": False}):
            assert twistd_log(options, MemoryReactorClock()) is None

    def test_a_log_file(self, tmp_path: Path) -> None:
        path = tmp_path / "fakedev.log"
        observer = twistd_log({"logfile": str(path), "nodaemon": True}, MemoryReactorClock())
        assert observer is not None
        observer(event(peer="é"))
        assert path.read_text(encoding="utf-8") == "2023-11-14T22:13:20.250Z info  é left\n"

    def test_a_log_file_that_is_no_file(self, tmp_path: Path) -> None:
        """A line says what to do."""
        with pytest.raises(SystemExit, match=rf"^fakedev: the log file {tmp_path} cannot be written: it is a folder"):
            twistd_log({"logfile": str(tmp_path)}, MemoryReactorClock())


class TestLogFile:
    """The log file under twistd, and programs that move or truncate it."""

    @staticmethod
    def opened(tmp_path: Path, mode: int = 0o640, **options: Any) -> tuple[LogFile, Path]:
        """A log file with a line."""
        path = tmp_path / "d.log"
        path.touch()
        path.chmod(mode)
        file = LogFile(str(path), **options)
        file.write("one\n")
        return file, path

    @staticmethod
    def mode(path: Path) -> int:
        """Of a file."""
        return stat.S_IMODE(path.stat().st_mode)

    def test_truncated(self, tmp_path: Path) -> None:
        """By logrotate's copytruncate: what follows begins at the start of the file."""
        file, path = self.opened(tmp_path)
        os.truncate(path, 0)
        file.write("two\n")
        assert path.read_text() == "two\n"

    def test_truncated_is_small_again(self, tmp_path: Path) -> None:
        """Its own rotation by size goes by the file."""
        file, path = self.opened(tmp_path, rotate_bytes=10)
        file.write("x" * 10)
        os.truncate(path, 0)
        file.write("two\n")
        assert list(tmp_path.iterdir()) == [path]
        file.write("x" * 10)
        file.write("three\n")
        assert path.read_text() == "three\n"

    def test_moved(self, tmp_path: Path) -> None:
        """By logrotate, then SIGUSR1: a new file with the same mode has all that follows."""
        file, path = self.opened(tmp_path)
        path.rename(tmp_path / "moved")
        file.write("two\n")
        old = os.umask(0o077)  # of a daemon
        try:
            file.signalled()
        finally:
            os.umask(old)
        file.write("three\n")
        assert (tmp_path / "moved").read_text() == "one\ntwo\n"
        assert path.read_text() == "three\n"
        assert self.mode(path) == 0o640

    def test_moved_and_made(self, tmp_path: Path) -> None:
        """By logrotate's create, which gives the file its mode."""
        file, path = self.opened(tmp_path)
        path.rename(tmp_path / "moved")
        path.touch()
        path.chmod(0o600)
        file.signalled()
        file.write("two\n")
        assert (path.read_text(), self.mode(path)) == ("two\n", 0o600)

    def test_rotated(self, tmp_path: Path) -> None:
        """By itself: the mode stays, whatever the umask is."""
        file, path = self.opened(tmp_path)
        old = os.umask(0o077)
        try:
            file.signalled()
        finally:
            os.umask(old)
        assert (path.read_text(), self.mode(path)) == ("", 0o640)
        assert (tmp_path / "d.log.1").read_text() == "one\n"
        file.write("two\n")
        file.signalled()
        assert [(tmp_path / f"d.log.{number}").read_text() for number in (1, 2)] == ["two\n", "one\n"]

    def test_a_folder_that_cannot_be_written(self, tmp_path: Path) -> None:
        """A full file grows when it cannot be rotated."""
        folder = tmp_path / "logs"
        folder.mkdir()
        file, _ = self.opened(folder, rotate_bytes=3)
        folder.rename(tmp_path / "old")
        file.write("two\n")
        assert (tmp_path / "old" / "d.log").read_text() == "one\ntwo\n"

    def test_a_folder_that_is_gone(self, tmp_path: Path) -> None:
        """The moved file stays in use, and the log says why."""
        folder = tmp_path / "logs"
        folder.mkdir()
        file, _ = self.opened(folder)
        folder.rename(tmp_path / "old")
        logged: list[LogEvent] = []
        globalLogPublisher.addObserver(logged.append)
        try:
            file.signalled()
        finally:
            globalLogPublisher.removeObserver(logged.append)
        file.write("two\n")
        assert [each["reason"] for each in logged] == ["no such file or folder"]
        assert (tmp_path / "old" / "d.log").read_text() == "one\ntwo\n"
