"""Decides from the first bytes of a connection in which way its peer speaks.

Finds where a JSON object ends, in bytes that come in pieces.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final

from fakedev.wire.errors import ProtocolError
from fakedev.wire.json_scan import has_top_level_key

#: Bytes that a message may have.
MAX_BYTES: Final = 65536
BLANKS: Final = b" \t\r\n"

_OUTSIDE: Final = re.compile(rb'["{}]')
_INSIDE: Final = re.compile(rb'["\\]')
# An object without objects in it, whole: most are. Possessive, so that hostile bytes cost linear time.
_FLAT: Final = re.compile(rb'\{(?:[^"{}]++|"(?:[^"\\]++|\\.)*+")*+\}', re.DOTALL)
_NOT_BLANK: Final = re.compile(rb"[^ \t\r\n]")


class BraceScanner:
    """Finds the brace that closes an object; knows strings and escapes, and looks at each byte once."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def scan(self, data: bytes, start: int = 0) -> int:
        """The position after the closing brace; -1 when it is not in these bytes.

        The first byte ever scanned must be the opening brace.
        """
        if not self._depth and (flat := _FLAT.match(data, start)):
            return flat.end()
        position = start
        if self._escaped and position < len(data):
            self._escaped = False
            position += 1
        while True:
            found = (_INSIDE if self._in_string else _OUTSIDE).search(data, position)
            if found is None:
                return -1
            position = found.end()
            match found[0]:
                case b'"':
                    self._in_string = not self._in_string
                case b"\\":
                    if position == len(data):
                        self._escaped = True
                    position += 1
                case b"{":
                    self._depth += 1
                case _:
                    self._depth -= 1
                    if self._depth == 0:
                        return position


class ObjectReader:
    """Cuts objects that follow each other, with or without white space between, out of a stream."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._scanner = BraceScanner()
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def begun(self) -> bool:
        """Whether an object was begun and is not complete."""
        return self._size > 0

    @property
    def incomplete(self) -> bytes:
        """What has come of an object that is not complete, as far as it may be long."""
        return b"".join(self._parts)[: self._max_bytes]

    def feed(self, data: bytes) -> tuple[bytes | None, bytes]:
        """The object that these bytes complete, and the bytes after it; (None, empty) when none is complete.

        :raises ProtocolError: fatal, for anything between objects, and for an object that is too long.
        """
        start = 0
        if not self.begun:
            first = _NOT_BLANK.search(data)
            if first is None:
                return None, b""
            if first[0] != b"{":
                raise ProtocolError("bad-argument", "something that is no object follows the object", fatal=True)
            start = first.start()
        end = self._scanner.scan(data, start)
        self._parts.append(data[start : len(data) if end < 0 else end])
        self._size += len(self._parts[-1])
        if self._size > self._max_bytes:
            raise ProtocolError("too-long", f"an object is at most {self._max_bytes} bytes", fatal=True)
        if end < 0:
            return None, b""
        complete = b"".join(self._parts)
        self._scanner, self._parts, self._size = BraceScanner(), [], 0
        return complete, data[end:]


class Dialect(enum.Enum):
    """The ways in which a peer may speak; it is answered in the same."""

    WORDS = "words"
    JSON_LINES = "JSON lines"
    BARE = "bare JSON"

    __hash__ = object.__hash__  # members are single objects, and this is asked often


@dataclass(frozen=True)
class Opened:
    """What the first bytes said.

    :param message: the first message, an object; empty in words, where ``rest`` begins with the first line.
    :param rest: the bytes after it, not looked at.
    """

    way: Dialect
    message: bytes
    rest: bytes


class Opening:
    """Reads a connection until it is clear which way it goes; content alone decides."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._objects = ObjectReader(max_bytes)

    @property
    def begun(self) -> bool:
        """Whether a message was begun and is not complete."""
        return self._objects.begun

    def feed(self, data: bytes) -> Opened | None:
        """The way, as soon as it is clear; None before.

        :raises ProtocolError: fatal, when the first object is too long.
        """
        if not self._objects.begun:
            data = data.lstrip(BLANKS)
            if not data:
                return None
            if not data.startswith(b"{"):
                return Opened(Dialect.WORDS, b"", data)
        message, rest = self._objects.feed(data)
        if message is None:
            return None
        return Opened(Dialect.JSON_LINES if has_top_level_key(message, "op") else Dialect.BARE, message, rest)

    def likely_way(self) -> Dialect:
        """The way in which to answer a peer whose first message did not become complete."""
        if not self._objects.begun:
            return Dialect.WORDS
        return Dialect.JSON_LINES if has_top_level_key(self._objects.incomplete, "op") else Dialect.BARE
