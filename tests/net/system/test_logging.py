"""The log: one line an entry for all that a peer sends, repeats counted, levels, JSON, and its place under twistd."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.application import service
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import ILogObserver, Logger, LogLevel, LogPublisher
from twisted.python.failure import Failure
from twisted.python.log import LogPublisher as OldPublisher

from fakedev.net.system.log_lines import TRACEBACK_INDENT, json_line, text_line
from fakedev.net.system.log_repeats import MAX_KINDS, RepeatLimit
from fakedev.net.system.logging import LoggedService, LogLines, make_log, twistd_log

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

    def test_text(self) -> None:
        """Time in UTC, level, text."""
        assert text_line(event(peer="p")) == "2023-11-14T22:13:20.250Z info  p left\n"

    def test_json(self) -> None:
        """Time, level, logger, text and the plain fields of the event."""
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
        """A field named text does not change the text."""
        assert json.loads(json_line({**event("x"), "text": "t", "level": "warn"}))["text"] == "x"

    def test_control_characters(self) -> None:
        """A peer can neither begin a new line nor speak to the terminal."""
        line = text_line(event(peer="a\nb\r\x1b[31m\x00\u2028\u202e\x85é\ud800"))
        assert line.endswith(r"a\nb\r\x1b[31m\x00\u2028\u202e\x85é\ud800 left" + "\n"), line

    def test_long_texts_are_cut(self) -> None:
        """A peer cannot fill the disk with one line either."""
        line = text_line(event(peer="x" * 1_000_000))
        assert len(line) < 4100
        assert "(1000005 characters)" in line
        entry = json.loads(json_line(event(peer="x" * 1_000_000)))
        assert len(entry["text"]) < 4100
        assert len(entry["peer"]) < 4100

    def test_tracebacks(self) -> None:
        """In text on separate indented lines, in JSON a field."""
        failure = failed(ValueError("bad\nworse"))
        lines = text_line(event("it broke", LogLevel.critical, log_failure=failure)).splitlines()
        assert "critical it broke" in lines[0]
        assert len(lines) > 3
        assert all(line.startswith(TRACEBACK_INDENT) for line in lines[1:]), lines
        entry = json.loads(json_line(event("it broke", LogLevel.critical, log_failure=failure)))
        assert "ValueError: bad\nworse" in entry["traceback"]

    def test_a_failure_without_words(self) -> None:
        """The exception itself is the text."""
        line, *_ = text_line(event("", LogLevel.critical, log_failure=failed(ValueError("bad")))).splitlines()
        assert "ValueError: bad" in line

    def test_an_unprintable_exception(self) -> None:
        """A broken exception does not lose the entry."""
        assert "it broke" in text_line(event("it broke", log_failure=failed(Unprintable())))
        assert json.loads(json_line(event("it broke", log_failure=failed(Unprintable()))))

    def test_events_of_the_older_logging(self) -> None:
        """What parts of Twisted still log the old way has its text too."""
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


class TestRepeat:
    """Repeated entries."""

    def setup_method(self) -> None:
        """A limit of three in ten seconds."""
        self.clock = Clock()
        self.texts: list[str] = []
        self.limit = RepeatLimit(
            lambda entry: self.texts.append(text_line(entry)[25:].strip()), self.clock, most=3, seconds=10
        )

    def test_the_rest_is_counted(self) -> None:
        """Three go out, the others are one entry when the ten seconds are over, without another event."""
        for number in range(403):
            self.limit(event(peer=number))
        assert self.texts == ["info  0 left", "info  1 left", "info  2 left"]
        self.clock.advance(10)
        assert self.texts[3:] == ["info  ... repeated 400 times in 10.0 s: 3 left"]
        assert self.clock.getDelayedCalls() == []
        self.limit(event(peer="later"))
        assert self.texts[4:] == ["info  later left"]

    def test_the_fields_of_the_entry_are_kept(self) -> None:
        """Its own times are those of the first that was left out."""
        for number in range(5):
            self.limit(event("ended after {seconds:.1f} s", seconds=number))
        self.clock.advance(10)
        assert self.texts[3:] == ["info  ... repeated 2 times in 10.0 s: ended after 3.0 s"]

    def test_kinds_are_apart(self) -> None:
        """Another format, logger, level or kind of failure has a separate count."""
        for _ in range(4):
            self.limit(event("a"))
            self.limit(event("b"))
            self.limit(event("a", LogLevel.warn))
            self.limit({**event("a"), "log_namespace": "fakedev.y"})
            self.limit(event("a", log_failure=failed(KeyError())))
        assert len([text for text in self.texts if text[-1] in "ab" or "| " in text]) == 15

    def test_few_repeats_cost_nothing(self) -> None:
        """What stays within the limit leaves no timer and no summary."""
        for _ in range(5):
            for _ in range(3):
                self.limit(event("a"))
            assert self.clock.getDelayedCalls() == []
            self.clock.advance(10)
        assert len(self.texts) == 15

    def test_debug_is_never_cut(self) -> None:
        """With level debug everything is logged."""
        for _ in range(50):
            self.limit(event("a", LogLevel.debug))
            self.limit(event("b", log_unlimited=True))
        assert len(self.texts) == 100

    def test_the_end_of_the_program(self) -> None:
        """The number of omitted lines is logged before the log ends."""
        for _ in range(5):
            self.limit(event("a"))
        self.limit.flush()
        assert self.texts[3:] == ["info  ... repeated 2 times in 0.0 s: a"]
        self.clock.advance(10)
        assert len(self.texts) == 4

    def test_texts_as_formats_do_not_fill_the_memory(self) -> None:
        """Texts logged as formats make many kinds: the old ones are forgotten."""
        for number in range(3 * MAX_KINDS):
            self.limit(event(f"text {number}"))
        assert len(self.texts) == 3 * MAX_KINDS
        assert len(self.limit._spans) <= MAX_KINDS

    def test_a_summary_has_no_traceback(self) -> None:
        """The traceback was shown with the first ones."""
        for _ in range(4):
            self.limit(event("a", LogLevel.critical, log_failure=failed(KeyError())))
        self.clock.advance(10)
        assert self.texts[3:] == ["critical ... repeated 1 times in 10.0 s: a"]


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
        """The level and above."""
        events = [event("x", level) for level in LogLevel.iterconstants()]
        assert self.written("debug", *events) == ["debug", "info", "warn", "error", "critical"]
        assert self.written("warn", *events) == ["warn", "error", "critical"]

    def test_twisted_is_quiet(self) -> None:
        """Twisted's own small talk counts as debug; its warnings and errors do not."""
        events = [
            {**event("x", level), "log_namespace": name}
            for name in ("log_legacy", "twisted.web.http")
            for level in (LogLevel.info, LogLevel.warn, LogLevel.critical)
        ]
        assert self.written("info", *events) == ["warn", "critical"] * 2
        assert self.written("debug", *events) == ["debug", "warn", "critical"] * 2

    def test_a_closed_stream_is_no_reason_to_fail(self) -> None:
        """The reader of the log may close it."""
        stream = io.StringIO()
        lines = LogLines(stream)
        stream.close()
        lines(event("x"))

    def test_a_whole_log(self) -> None:
        """From a Logger through the limit to the stream, and the rest at the end of the reactor."""
        stream = io.StringIO()
        reactor = MemoryReactorClock()
        publisher = LogPublisher(make_log(stream, reactor, "info", "json"))
        log = Logger(namespace="fakedev.test", observer=publisher)
        for number in range(12):
            log.info("peer {number}", number=number)
        log.debug("unseen")
        ((flush, arguments, keywords),) = reactor.triggers["after"]["shutdown"]
        flush(*arguments, **keywords)
        entries = [json.loads(line) for line in stream.getvalue().splitlines()]
        assert [entry["number"] for entry in entries] == [*range(10), 10]
        assert entries[-1]["repeated"] == 2


class TestTwistd:
    """The log as a part of what twistd makes."""

    def test_the_application_gets_the_observer(self) -> None:
        """twistd asks the application for it after it was given the services."""
        observer = make_log(io.StringIO(), MemoryReactorClock())
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
        """``--logfile`` gets our lines."""
        path = tmp_path / "fakedev.log"
        observer = twistd_log({"logfile": str(path), "nodaemon": True}, MemoryReactorClock())
        assert observer is not None
        observer(event(peer="é"))
        assert path.read_text(encoding="utf-8") == "2023-11-14T22:13:20.250Z info  é left\n"
