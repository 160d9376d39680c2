"""What one HTTP connection has read and not yet used: a head or a body that may still come, and requests behind it.

The body of a request, read from bytes as they come and counted while it is read. Pure code, no Twisted.
"""

from __future__ import annotations

from typing import Any, Final

from fakedev.net.http.deadlines import Deadlines
from fakedev.net.http.head import BadRequest, Head, HttpLimits, check_unfinished, end_of_head, parse_head

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

#: How much of further requests is read while one is being answered.
_READ_AHEAD: Final = 16 * 1024
#: How much is read, and thrown away, after a refusal.
_LINGER_BYTES: Final = 1024 * 1024


class Incoming:
    """The reading side of a connection: heads and bodies are taken out as they are complete.

    :param transport: is paused while enough is there.
    :ivar pending: what was read and not yet used.
    :ivar has_ended: the peer sends nothing more.
    :ivar is_paused: the transport reads nothing.
    """

    __slots__ = (
        "_deadlines", "_discarded", "_limits", "_searched", "_transport", "_upload", "has_ended", "is_paused",
        "pending",
    )  # fmt: skip

    def __init__(self, transport: Any, deadlines: Deadlines, limits: HttpLimits) -> None:
        self._transport = transport
        self._deadlines = deadlines
        self._limits = limits
        self.pending = b""
        self.has_ended = False
        self.is_paused = False
        self._searched = 0  # bytes that hold no end of a head
        self._upload: PlainUpload | ChunkedUpload | None = None
        self._discarded = 0

    @property
    def is_under_way(self) -> bool:
        """Whether a part of a head or body has come, and not all of it."""
        return self._searched > 0 or self._upload is not None

    def take_head(self) -> Head | None:
        """The head that comes next; None when it is not complete.

        :raises BadRequest: for one that cannot be.
        """
        data = self.pending
        if data[0] in b"\r\n":  # some clients end a body with an empty line
            data = self.pending = data.lstrip(b"\r\n")
        end = end_of_head(data, self._searched)
        if end is None:
            check_unfinished(data, self._limits)
            if data and not self._searched:
                self._deadlines.input_in(self._limits.head_seconds)
            self._searched = len(data)
            return None
        self._searched = 0
        self._deadlines.input_arrived()
        self.pending = data[end[1] :]
        return parse_head(data[: end[0]], self._limits)

    def begin_body(self, head: Head) -> None:
        """A body comes next.

        :raises BadRequest: for one that is too long.
        """
        self._upload = upload_for(head, self._limits.body)
        self._deadlines.input_in(self._limits.body_seconds)

    def take_body(self) -> bytes | None:
        """The body that comes next; None when it is not complete.

        :raises BadRequest: for one that cannot be.
        """
        assert self._upload is not None
        data, self.pending = self.pending, b""
        rest = self._upload.feed(data)
        if rest is None:
            return None
        self.pending = rest
        self._deadlines.input_arrived()
        upload, self._upload = self._upload, None
        return upload.value()

    def throttle(self, is_busy: bool) -> None:
        """Let the transport read only so far ahead of what can be used.

        :param is_busy: nothing of it can be used now.
        """
        is_paused = is_busy and len(self.pending) > _READ_AHEAD
        if is_paused == self.is_paused or self.has_ended:
            return
        self.is_paused = is_paused
        if is_paused:
            self._transport.pauseProducing()
        else:
            self._transport.resumeProducing()

    def forget(self) -> None:
        """Nothing of it will be used."""
        self.pending = b""
        self._upload = None

    def discard(self, data: bytes) -> bool:
        """Throw away what still comes; whether it was too much by now."""
        self._discarded += len(data)
        return self._discarded > _LINGER_BYTES
