"""The body of a request, read from bytes as they come and counted while it is read. Pure code, no Twisted."""

from __future__ import annotations

from typing import Final

from fakedev.net.http.head import BadRequest, Head

_LONGEST_SIZE_LINE: Final = 256
_LONGEST_TRAILER: Final = 4096


class PlainUpload:
    """A body whose length was announced."""

    def __init__(self, length: int) -> None:
        self._missing = length
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> bytes | None:
        """Take ``data``; gives what follows the body once it is complete, None before."""
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


class ChunkedUpload:
    """A body that comes in chunks, each with its size; trailers are read and forgotten."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._received = 0
        self._parts: list[bytes] = []
        self._buffer = b""
        self._missing = 0  # of the chunk being read, with the CR LF after it
        self._in_trailer = False
        self._trailer = 0

    def feed(self, data: bytes) -> bytes | None:
        """Take ``data``; gives what follows the body once it is complete, None before. Raises BadRequest."""
        self._buffer += data
        while True:
            if self._missing:
                if not self._take_chunk():
                    return None
                continue
            line, newline, rest = self._buffer.partition(b"\r\n")
            longest = _LONGEST_TRAILER if self._in_trailer else _LONGEST_SIZE_LINE
            if len(line) > longest:
                raise BadRequest(400, "a line between the chunks is too long")
            if not newline:
                return None
            self._buffer = rest
            if not self._in_trailer:
                self._begin_chunk(line)
            elif not line:
                return rest
            else:
                self._trailer += len(line)
                if self._trailer > _LONGEST_TRAILER:
                    raise BadRequest(431, "the trailers are too long")

    def value(self) -> bytes:
        """The body."""
        return b"".join(self._parts)

    def _begin_chunk(self, line: bytes) -> None:
        digits = line.partition(b";")[0].strip(b" \t")
        if not digits or digits.translate(None, b"0123456789abcdefABCDEF"):
            raise BadRequest(400, "the size of a chunk is not a hexadecimal number")
        size = int(digits, 16)
        self._received += size
        if self._received > self._limit:
            raise too_large(self._limit)
        self._in_trailer = size == 0
        self._missing = size + 2 if size else 0

    def _take_chunk(self) -> bool:
        """Take what there is of the current chunk; whether it is complete."""
        if len(self._buffer) < self._missing:
            # The last two bytes are the line end: they stay until both are there.
            taken = max(0, min(len(self._buffer), self._missing - 2))
            self._parts.append(self._buffer[:taken])
            self._buffer = self._buffer[taken:]
            self._missing -= taken
            return False
        end = self._missing - 2
        if self._buffer[end : end + 2] != b"\r\n":
            raise BadRequest(400, "a chunk does not end where its size says")
        self._parts.append(self._buffer[:end])
        self._buffer = self._buffer[end + 2 :]
        self._missing = 0
        return True


def too_large(limit: int) -> BadRequest:
    """The refusal of a body over ``limit`` bytes."""
    return BadRequest(413, f"the body is longer than {limit} bytes")


def upload_for(head: Head, limit: int) -> PlainUpload | ChunkedUpload:
    """What reads the body after ``head``; raises BadRequest when its announced length is over ``limit``."""
    if head.chunked:
        return ChunkedUpload(limit)
    if head.length > limit:
        raise too_large(limit)
    return PlainUpload(head.length)
