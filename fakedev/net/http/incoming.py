"""What one HTTP connection has read and not yet used: a head or a body that may still come, and requests behind it."""

from __future__ import annotations

from typing import Any, Final

from fakedev.net.http.deadlines import Deadlines
from fakedev.net.http.head import Head, HttpLimits, check_unfinished, end_of_head, parse_head
from fakedev.net.http.http_upload import ChunkedUpload, PlainUpload, upload_for

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
