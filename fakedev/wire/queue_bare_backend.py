"""Bare JSON as a backend speaks it: what it asks, what it is answered, and the result that it sends."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from fakedev.wire.braces import BLANKS, ObjectReader
from fakedev.wire.errors import ProtocolError
from fakedev.wire.strict_json import kind_of, load_object

#: What an original frontend reads of a message.
MOST_BARE_BYTES: Final = 1024
_MOST_WORDS_BYTES: Final = 4096


@dataclass(frozen=True)
class BareWork:
    """A frontend's answer with a job in it.

    :param limit_seconds: run-time limit; 0 for none.
    """

    arguments: tuple[str, ...]
    limit_seconds: float


@dataclass(frozen=True)
class BareEmpty:
    """The answer that nothing waits in the queue."""


@dataclass(frozen=True)
class BareRefusal:
    """The answer that there will be no work for this backend.

    :param is_busy: whether it is only for now, as the frontend has too many connections.
    """

    text: str
    is_busy: bool = False


BareAnswer = BareWork | BareEmpty | BareRefusal


def encode_ask(queue: str) -> bytes:
    """The message that asks for work."""
    return _encode({"Queue": queue})


def encode_result(
    *, pod: str, node: str, device: str, error: str, timeout_seconds: float, run_seconds: float, exit_code: int
) -> bytes:
    """The message that tells how a run ended; an error that would make it too long for the original is cut.

    :param device: empty when there is none.
    :raises ValueError: when it would be too long without any error.
    """
    fields: dict[str, object] = {
        "Pod": pod,
        "Node": node,
        "Device": device or ".",  # the base name of no file, for Go
        "Error": error,
        "Timeout": _plain(timeout_seconds),
        "Runtime": _plain(run_seconds),
        "Retcode": exit_code,
    }
    message = _encode(fields)
    if len(message) <= MOST_BARE_BYTES:
        return message
    fits, too_long = -1, len(error)
    while too_long - fits > 1:
        length = (fits + too_long) // 2
        if len(_encode({**fields, "Error": error[:length]})) <= MOST_BARE_BYTES:
            fits = length
        else:
            too_long = length
    if fits < 0:
        raise ValueError(f"the names of pod, node and device are too long for a message of {MOST_BARE_BYTES} bytes")
    return _encode({**fields, "Error": error[:fits]})


class BareAnswerReader:
    """Gathers the bytes of a frontend's one answer, which may come in any pieces."""

    def __init__(self) -> None:
        self._objects = ObjectReader()
        self._words = b""

    def feed(self, data: bytes) -> BareAnswer | None:
        """The answer that these bytes complete; None when there is more to come.

        :raises ProtocolError: when what comes is no such answer.
        """
        if not self._objects.begun and not self._words:
            data = data.lstrip(BLANKS)
        if self._words or (data and not data.startswith(b"{")):
            return self._feed_words(data)
        message, _ = self._objects.feed(data)
        return None if message is None else parse_answer(message)

    def _feed_words(self, data: bytes) -> BareAnswer | None:
        """A frontend that has too many connections says so in words, before it knows who asks in which way."""
        self._words += data
        line, newline, _ = self._words.partition(b"\n")
        if not newline and len(line) <= _MOST_WORDS_BYTES:
            return None
        text = line[:200].decode("utf-8", "replace").rstrip()
        if text.startswith("error busy"):
            return BareRefusal(text.removeprefix("error "), is_busy=True)
        raise ProtocolError("bad-argument", f"this is no answer of a queue's frontend: {text}")


def parse_answer(message: bytes) -> BareAnswer:
    """What a frontend's object says; names are found in any letter case.

    :raises ProtocolError: ``bad-argument``, naming the field at fault.
    """
    fields = {name.casefold(): value for name, value in load_object(message, last_one_counts=True).items()}
    error = _text("Error", fields.get("error"))
    empty = fields.get("empty") or False
    if not isinstance(empty, bool):
        raise ProtocolError("bad-argument", f"Empty: must be true or false, not {kind_of(empty)}")
    if empty:
        return BareEmpty()
    if error:
        return BareRefusal(error)
    arguments = fields.get("args") or []
    if not isinstance(arguments, list):
        raise ProtocolError("bad-argument", f"Args: must be a list, not {kind_of(arguments)}")
    limit = fields.get("limit") or 0
    if not isinstance(limit, int | float) or isinstance(limit, bool):
        raise ProtocolError("bad-argument", f"Limit: must be a number, not {kind_of(limit)}")
    texts = tuple(_text(f"Args[{place}]", value) for place, value in enumerate(arguments))
    return BareWork(texts, max(0.0, float(limit)))


def _text(where: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ProtocolError("bad-argument", f"{where}: must be a text, not {kind_of(value)}")
    return value


def _encode(fields: dict[str, object]) -> bytes:
    """As Go's programs write objects: indented with tabs, nothing after the closing brace."""
    return json.dumps(fields, indent="\t", ensure_ascii=False).encode("utf-8", "replace")


def _plain(number: float) -> float:
    """A number without a fraction when it has none, as Go writes it."""
    return int(number) if number.is_integer() else number
