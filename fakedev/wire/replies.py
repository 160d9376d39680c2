"""Answers and notifications, and their encoding in each format."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from fakedev.spec.errors import printable
from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Dialect

_MAX_EXCERPT_BYTES = 400


@dataclass(slots=True)
class Reply:
    """An answer that reports success.

    :param text: follows ``ok`` in words.
    :param data: the fields of the object in JSON lines; None for the text or the lines.
    :param lines: a longer answer, instead of the text.
    """

    text: str = ""
    data: Mapping[str, object] | None = None
    lines: Sequence[str] | None = None


@dataclass(frozen=True)
class Notification:
    """An event that is sent to a peer without a request.

    :param data: the object in JSON lines; its ``event`` names the kind.
    """

    text: str
    data: Mapping[str, object]


def encode_reply(reply: Reply, way: Dialect, request_id: str | int | None = None) -> bytes:
    """Encode an answer in words or JSON lines."""
    if way is Dialect.JSON_LINES:
        data = reply.data
        if data is None:
            text: Mapping[str, object] = {"text": reply.text} if reply.text else {}
            data = text if reply.lines is None else {"lines": list(reply.lines)}
        return _json_line({"ok": True, **data} if request_id is None else {"id": request_id, "ok": True, **data})
    if reply.lines is None:
        return _line(f"ok {reply.text}" if reply.text else "ok")
    return _line(f"ok {len(reply.lines)} lines") + b"".join(_line(line) for line in reply.lines)


def encode_error(error: ProtocolError, way: Dialect, request_id: str | int | None = None) -> bytes:
    """Encode an error in words or JSON lines."""
    if way is Dialect.JSON_LINES:
        fields = {"ok": False, "error": {"code": error.code, "message": error.text}}
        return _json_line(fields if request_id is None else {"id": request_id, **fields})
    return _line(f"error {error.code} {error.text}")


def encode_notification(news: Notification, way: Dialect) -> bytes:
    """Encode a notification in words or JSON lines."""
    return _json_line(news.data) if way is Dialect.JSON_LINES else _line(news.text)


def bare_digit(code: int) -> bytes:
    """The only answer to a bare workload: 0 or 1."""
    return b"1" if code else b"0"


def excerpt(message: bytes) -> str:
    """A message as the log shows it: printable, and cut if it is long."""
    text = printable(message[:_MAX_EXCERPT_BYTES].decode("utf-8", "replace"))
    return text if len(message) <= _MAX_EXCERPT_BYTES else f"{text}... ({len(message)} bytes)"


def _line(text: str) -> bytes:
    return printable(text).encode("utf-8") + b"\n"


def _json_line(data: Mapping[str, object]) -> bytes:
    # ASCII only, with control characters and half surrogate pairs as escapes. orjson takes a third of the time, but
    # does not escape DEL and other characters that are not ASCII, and writes null for NaN.
    try:
        plain = orjson.dumps(data, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        plain = b"null"
    text = plain.decode()  # a search in bytes takes several times as long as one in a text
    if text.isascii() and "\x7f" not in text and "null" not in text:
        return plain
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"
