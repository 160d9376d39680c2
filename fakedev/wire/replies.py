"""Answers and news, and how they look in each way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from fakedev.wire.errors import ProtocolError
from fakedev.wire.framing import Dialect

_EXCERPT_BYTES = 400
_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(slots=True)
class Reply:
    """A good answer.

    :param text: what follows ``ok`` in words.
    :param data: what the object holds in JSON lines; the text or the lines when it is None.
    :param lines: a longer answer, in place of the text.
    """

    text: str = ""
    data: Mapping[str, object] | None = None
    lines: Sequence[str] | None = None


@dataclass(frozen=True)
class News:
    """Something that a peer is told without having asked just now.

    :param data: the object in JSON lines; its ``event`` names the kind.
    """

    text: str
    data: Mapping[str, object]


def encode_reply(reply: Reply, way: Dialect, request_id: str | int | None = None) -> bytes:
    """A good answer in words or JSON lines."""
    if way is Dialect.JSON_LINES:
        data = reply.data if reply.data is not None else _data(reply)
        return _json_line({"ok": True, **data} if request_id is None else {"id": request_id, "ok": True, **data})
    if reply.lines is None:
        return _line(f"ok {reply.text}" if reply.text else "ok")
    return _line(f"ok {len(reply.lines)} lines") + b"".join(_line(line) for line in reply.lines)


def encode_error(error: ProtocolError, way: Dialect, request_id: str | int | None = None) -> bytes:
    """An error in words or JSON lines."""
    if way is Dialect.JSON_LINES:
        fault = {"code": error.code, "message": error.text}
        return _json_line({**_identified(request_id), "ok": False, "error": fault})
    return _line(f"error {error.code} {error.text}")


def encode_news(news: News, way: Dialect) -> bytes:
    """News in words or JSON lines."""
    return _json_line(news.data) if way is Dialect.JSON_LINES else _line(news.text)


def bare_digit(code: int) -> bytes:
    """What a bare workload is told: 0 or 1, and nothing else."""
    return b"1" if code else b"0"


def printable(text: str) -> str:
    """A text of which everything prints, on one line: other characters are shown as escapes."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escape(character) for character in text)


def excerpt(message: bytes) -> str:
    """A message as the log shows it: everything prints, and only the beginning of a long one is there."""
    shown = printable(message[:_EXCERPT_BYTES].decode("utf-8", "replace"))
    return shown if len(message) <= _EXCERPT_BYTES else f"{shown}... ({len(message)} bytes)"


def _escape(character: str) -> str:
    number = ord(character)
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _line(text: str) -> bytes:
    return printable(text).encode("utf-8") + b"\n"


def _json_line(data: Mapping[str, object]) -> bytes:
    # ASCII only: control characters and half surrogate pairs come out as escapes. orjson takes a third of the time,
    # but leaves DEL and what is not ASCII as it is, and calls a NaN null.
    try:
        plain = orjson.dumps(data, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        plain = b"null"
    if plain.isascii() and b"\x7f" not in plain and b"null" not in plain:
        return plain
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def _identified(request_id: str | int | None) -> dict[str, object]:
    return {} if request_id is None else {"id": request_id}


def _data(reply: Reply) -> Mapping[str, object]:
    if reply.lines is not None:
        return {"lines": list(reply.lines)}
    return {"text": reply.text} if reply.text else {}
