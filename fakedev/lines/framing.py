"""Framing of a connection: the dialect of the peer, and where a JSON object ends, in pieces of any size.

The checks of JSON text do not parse it, so that the text may be invalid or incomplete.
"""

from __future__ import annotations

import enum
import json
import re
from typing import Final

from fakedev.lines.grammar import Grammar, ProtocolError

# Possessive, and an unclosed string extends to the end of the text: hostile text costs linear time.
_TOKEN: Final = re.compile(rb'"((?:[^"\\]++|\\.?)*+)"?+[ \t\r\n]*+(:?)|([{\[])|[}\]]', re.DOTALL)


def has_top_level_key(text: bytes, key: str) -> bool:
    """Whether an object, complete or not, has this key at its top level, in this letter case."""
    if key.encode() not in text and b"\\" not in text:
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[1] is not None:
            if depth == 1 and token[2] and _unescaped(token[1]) == key:
                return True
        else:
            depth += 1 if token[3] else -1
    return False


def is_deeper_than(text: bytes, levels: int) -> bool:
    """Whether objects and arrays are nested in more than ``levels`` levels."""
    if text.count(b"{") + text.count(b"[") <= levels:
        return False
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[1] is None:
            depth += 1 if token[3] else -1
            if depth > levels:
                return True
    return False


def _unescaped(key: bytes) -> str:
    """A key as a parser would read it; empty if it is invalid."""
    text = key.decode("utf-8", "replace")
    if "\\" not in text:
        return text
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return ""


#: Maximum bytes of a message.
MAX_BYTES: Final = 65536
BLANKS: Final = b" \t\r\n"

_OUTSIDE: Final = re.compile(rb'["{}]')
_INSIDE: Final = re.compile(rb'["\\]')
# A complete object without nested objects, as most are. Possessive, so that hostile bytes cost linear time.
_FLAT: Final = re.compile(rb'\{(?:[^"{}]++|"(?:[^"\\]++|\\.)*+")*+\}', re.DOTALL)
#: The first byte of a TLS connection (RFC 8446, section 5.1): a record of the handshake.
_TLS_HANDSHAKE: Final = b"\x16"
_HTTP_HINT: Final = "web: in the configuration, and the log, have the addresses of HTTP"
_NOT_BLANK: Final = re.compile(rb"[^ \t\r\n]")


def refuse_http(line: bytes, grammar: Grammar) -> None:
    """Refuse a line that is the request line of HTTP, whatever its method, target and quotes.

    A web page can make a browser send its form to a line port, and lines of the page's choice in its body: they must
    not be served. A page whose name leads to this machine can also choose the name of a verb as the method.

    :raises ProtocolError: fatal.
    """
    if b"HTTP/" not in line:
        return
    words = line.split()
    if len(words) < 3 or not words[-1].startswith(b"HTTP/"):
        return
    is_target = words[1].startswith((b"/", b"*")) or b"://" in words[1]
    if is_target or words[0].decode("utf-8", "replace") not in grammar:
        raise ProtocolError("unknown-verb", f"this port takes lines, not HTTP; {_HTTP_HINT}", fatal=True)


class BraceScanner:
    """Finds the brace that closes an object. It skips braces in strings, and reads each byte once."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def scan(self, data: bytes, start: int = 0) -> int:
        """The position after the closing brace; -1 if it is not in these bytes.

        The first byte of the first call must be the opening brace.
        """
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
    """Splits a stream into objects, with or without white space between them."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._scanner: BraceScanner | None = None  # of an object that did not arrive whole
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def begun(self) -> bool:
        return self._size > 0

    @property
    def incomplete(self) -> bytes:
        """The received part of an object that is not complete, at most ``max_bytes``."""
        return b"".join(self._parts)[: self._max_bytes]

    def feed(self, data: bytes) -> tuple[bytes | None, bytes]:
        """The object that these bytes complete, and the bytes after it; (None, empty) if there is none.

        :raises ProtocolError: fatal, for other bytes between objects, and for an object that is too long.
        """
        start = 0
        if not self.begun:
            first = _NOT_BLANK.search(data)
            if first is None:
                return None, b""
            if first[0] != b"{":
                raise ProtocolError("bad-argument", "the bytes after the object are not an object", fatal=True)
            start = first.start()
            if (flat := _FLAT.match(data, start)) and flat.end() - start <= self._max_bytes:
                return flat[0], data[flat.end() :]
            self._scanner = BraceScanner()
        assert self._scanner is not None
        end = self._scanner.scan(data, start)
        self._parts.append(data[start : len(data) if end < 0 else end])
        self._size += len(self._parts[-1])
        if self._size > self._max_bytes:
            raise ProtocolError("too-long", f"an object is at most {self._max_bytes} bytes", fatal=True)
        if end < 0:
            return None, b""
        complete = b"".join(self._parts)
        self._parts, self._size = [], 0
        return complete, data[end:]


class Dialect(enum.Enum):
    """The format of a peer's messages, and of the answers to them."""

    WORDS = "words"
    JSON_LINES = "JSON lines"
    BARE = "bare JSON"

    __hash__ = object.__hash__  # faster, as members are unique objects


#: The members by short names: before Python 3.12, to look one up in its class costs more than a call.
WORDS, JSON_LINES, BARE = Dialect


class Opening(ObjectReader):
    """Reads a connection until its format is known, and the further objects of bare JSON. Only the content decides."""

    def open(self, data: bytes) -> tuple[Dialect, bytes, bytes] | None:
        """The format as soon as it is known, the first object, and the unread bytes after it; None before.

        For words the object is empty, and the unread bytes begin with the first line.

        :raises ProtocolError: fatal, if the first object is too long, or the peer begins with TLS.
        """
        if not self.begun:
            data = data.lstrip(BLANKS)
            if not data:
                return None
            if data.startswith(_TLS_HANDSHAKE):
                raise ProtocolError("bad-argument", f"this port takes plain lines, not TLS; {_HTTP_HINT}", fatal=True)
            if not data.startswith(b"{"):
                return WORDS, b"", data
        message, rest = self.feed(data)
        return None if message is None else (_dialect_of(message), message, rest)

    def likely_dialect(self) -> Dialect:
        """The format in which to answer a peer whose first message is incomplete."""
        return _dialect_of(self.incomplete) if self.begun else WORDS


def _dialect_of(message: bytes) -> Dialect:
    return JSON_LINES if has_top_level_key(message, "op") else BARE
