"""Framing of a connection: the format of its peer, and where a JSON object ends, in pieces of any size."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Final

from fakedev.wire.errors import ProtocolError
from fakedev.wire.grammar import Grammar
from fakedev.wire.json_scan import has_top_level_key

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
    """Finds the brace that closes an object. It knows strings and escapes, and reads each byte once."""

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
        """Whether there is the beginning of an object."""
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


@dataclass(frozen=True)
class Opened:
    """The format of a connection, with its first message.

    :param message: the first message, an object; empty for words, where ``rest`` begins with the first line.
    :param rest: the unread bytes after it.
    """

    way: Dialect
    message: bytes
    rest: bytes


class Opening:
    """Reads a connection until its format is known. Only the content decides."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._objects = ObjectReader(max_bytes)

    @property
    def begun(self) -> bool:
        """Whether there is the beginning of a message."""
        return self._objects.begun

    def feed(self, data: bytes) -> Opened | None:
        """The format, as soon as it is known; None before.

        :raises ProtocolError: fatal, if the first object is too long, or the peer begins with TLS.
        """
        if not self._objects.begun:
            data = data.lstrip(BLANKS)
            if not data:
                return None
            if data.startswith(_TLS_HANDSHAKE):
                raise ProtocolError("bad-argument", f"this port takes plain lines, not TLS; {_HTTP_HINT}", fatal=True)
            if not data.startswith(b"{"):
                return Opened(Dialect.WORDS, b"", data)
        message, rest = self._objects.feed(data)
        if message is None:
            return None
        return Opened(Dialect.JSON_LINES if has_top_level_key(message, "op") else Dialect.BARE, message, rest)

    def likely_dialect(self) -> Dialect:
        """The format in which to answer a peer whose first message is incomplete."""
        if not self._objects.begun:
            return Dialect.WORDS
        return Dialect.JSON_LINES if has_top_level_key(self._objects.incomplete, "op") else Dialect.BARE
