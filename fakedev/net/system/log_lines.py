"""Entries of the log: a line of text, a JSON object, or fields by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from twisted.logger import LogLevel, formatEvent
from twisted.python.failure import Failure

#: Longer texts are cut, because they may come from a peer.
LONGEST_TEXT = 4000
#: Before each line of a traceback, so that it does not look like an entry.
TRACEBACK_INDENT = "    | "

#: The fields that Twisted's older logging module adds to an event.
_OLD_FIELDS = frozenset({"message", "time", "system", "format", "isError", "failure", "why", "logLevel", "debug"})
#: Our JSON keys; fields of an event with these names are left out.
_KEYS = frozenset({"time", "level", "logger", "text", "traceback"})


def text_line(event: Mapping[str, Any]) -> str:
    """``TIME LEVEL TEXT`` and a newline; the lines of a traceback follow, indented."""
    lines = [f"{_time(event)} {_level(event):<5} {escaped(_text(event))}"]
    lines += (f"{TRACEBACK_INDENT}{escaped(line)}" for line in _traceback(event).splitlines())
    return "\n".join(lines) + "\n"


def json_line(event: Mapping[str, Any]) -> str:
    """One object on one line; see :func:`log_entry`."""
    return json.dumps(log_entry(event)) + "\n"


def log_entry(event: Mapping[str, Any]) -> dict[str, Any]:
    """Time, level, logger, text, the event's plain fields, and the traceback if there is one."""
    entry: dict[str, Any] = {
        "time": _time(event),
        "level": _level(event),
        "logger": event.get("log_namespace", ""),
        "text": _shortened(_text(event)),
    }
    for name, value in event.items():
        if name in _OLD_FIELDS or name in _KEYS or name.startswith("log_"):
            continue
        if isinstance(value, bytes):
            entry[name] = _shortened(value.decode("latin-1"))
        elif isinstance(value, str):
            entry[name] = _shortened(value)
        elif value is None or isinstance(value, (bool, int)):
            entry[name] = value
        elif isinstance(value, float):
            # JSON has no infinities; NaN differs from itself.
            entry[name] = value if value - value == 0 else str(value)
    if traceback := _traceback(event):
        entry["traceback"] = traceback
    return entry


def escaped(text: str) -> str:
    """A text on one line: characters that do not print are escaped as Python does it, and long texts are cut."""
    text = _shortened(text)
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}... ({len(text)} characters)"


def _time(event: Mapping[str, Any]) -> str:
    moment = datetime.fromtimestamp(event.get("log_time", 0.0), UTC)
    return f"{moment.strftime('%Y-%m-%dT%H:%M:%S')}.{moment.microsecond // 1000:03d}Z"


def _level(event: Mapping[str, Any]) -> str:
    level = event.get("log_level", LogLevel.info)
    return str(level.name)


def _text(event: Mapping[str, Any]) -> str:
    text = formatEvent(dict(event))
    if text:
        return text
    failure = event.get("log_failure")
    return f"{type(failure.value).__name__}: {failure.value}" if isinstance(failure, Failure) else ""


def _traceback(event: Mapping[str, Any]) -> str:
    failure = event.get("log_failure")
    if not isinstance(failure, Failure):
        return ""
    try:
        return str(failure.getTraceback())
    except Exception as reason:  # an exception whose __str__ fails must not lose the entry
        return f"no traceback could be made: {type(reason).__name__}"
