"""The body of a request, read from bytes as they arrive and counted while it is read. Pure code, no Twisted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from fakedev.net.http.limits import CONTROL_CHARACTERS, BadRequest

_MAX_SIZE_LINE: Final = 256
_MAX_TRAILERS: Final = 4096


@dataclass
class PlainUpload:
    """A body with a Content-Length."""

    _missing: int
    _parts: list[bytes] = field(default_factory=list)

    def feed(self, data: bytes) -> bytes | None:
        """Take ``data``; return what follows the body once that is complete, None before."""
        if len(data) < self._missing:
            self._missing -= len(data)
            self._parts.append(data)
            return None
        self._parts.append(data[: self._missing])
        rest = data[self._missing :]
        self._missing = 0
        return rest

    def value(self) -> bytes:
        """The body."""
        return b"".join(self._parts)


@dataclass
class ChunkedUpload:
    """A body in chunks, each with its size; trailers are read and dropped."""

    _limit: int
    _received: int = 0
    _parts: list[bytes] = field(default_factory=list)
    _buffer: bytes = b""
    _missing: int = 0  # bytes of the current chunk, with the CR LF after it
    _in_trailer: bool = False
    _trailer: int = 0

    def feed(self, data: bytes) -> bytes | None:
        """As PlainUpload.feed.

        :raises BadRequest: when the chunks are malformed, or longer than the limit.
        """
        data, at = self._buffer + data, 0
        while True:
            if self._missing:
                at = self._take_chunk(data, at)
                if self._missing:
                    break
            most = _MAX_TRAILERS if self._in_trailer else _MAX_SIZE_LINE
            end = data.find(b"\r\n", at, at + most + 2)
            line = data[at : at + most + 1].removesuffix(b"\r") if end < 0 else data[at:end]
            if len(line) > most:
                raise BadRequest(400, "a line between the chunks is too long")
            if len(line.translate(None, CONTROL_CHARACTERS)) != len(line):
                raise BadRequest(400, "a control character in a line between the chunks")
            if end < 0:
                break
            at = end + 2
            if not self._in_trailer:
                self._begin_chunk(line)
            elif not line:
                self._buffer = b""
                return data[at:]
            else:
                self._trailer += len(line)
                if self._trailer > _MAX_TRAILERS:
                    raise BadRequest(431, "the trailers are too long")
        self._buffer = data[at:]
        return None

    def value(self) -> bytes:
        """The body."""
        return b"".join(self._parts)

    def _begin_chunk(self, line: bytes) -> None:
        size_text, semicolon, _ = line.partition(b";")
        digits = size_text.rstrip(b" \t") if semicolon else size_text
        if not digits or digits.translate(None, b"0123456789abcdefABCDEF"):
            raise BadRequest(400, "the size of a chunk is not a hexadecimal number")
        size = int(digits, 16)
        self._received += size
        if self._received > self._limit:
            raise _too_large(self._limit)
        self._in_trailer = size == 0
        self._missing = size + 2 if size else 0

    def _take_chunk(self, data: bytes, at: int) -> int:
        """Take the available part of the current chunk, which begins at ``at``; return where what follows begins."""
        if len(data) - at < self._missing:
            # The last two bytes are the line end: they stay until both are there.
            taken = max(0, min(len(data) - at, self._missing - 2))
            self._parts.append(data[at : at + taken])
            self._missing -= taken
            return at + taken
        end = at + self._missing - 2
        if data[end : end + 2] != b"\r\n":
            raise BadRequest(400, "a chunk does not end where its size says")
        self._parts.append(data[at:end])
        self._missing = 0
        return end + 2


def upload_for(length: int | None, limit: int) -> PlainUpload | ChunkedUpload:
    """Choose the reader of a body.

    :param length: the announced length; None for a body in chunks.
    :raises BadRequest: when the announced length is over ``limit`` bytes.
    """
    if length is None:
        return ChunkedUpload(limit)
    if length > limit:
        raise _too_large(limit)
    return PlainUpload(length)


def _too_large(limit: int) -> BadRequest:
    return BadRequest(413, f"the body is longer than {limit} bytes")
