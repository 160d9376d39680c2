"""The frontend's answer to a backend that asked for work in bare JSON, as it comes: in any pieces."""

from __future__ import annotations

from typing import Final

from fakedev.wire.braces import BLANKS, ObjectReader
from fakedev.wire.errors import ProtocolError
from fakedev.wire.queue_bare import BareWork, parse_bare_work

_BUSY: Final = b"error busy"
_MOST_LINE_BYTES: Final = 4096
_SHOWN_BYTES: Final = 200


class BareWorkReader:
    """Gathers the one answer of a connection."""

    def __init__(self) -> None:
        self._objects = ObjectReader()
        self._words = b""

    def feed(self, data: bytes) -> BareWork | None:
        """The answer, when these bytes complete it.

        :raises ProtocolError: ``busy`` when the frontend has no room for the connection just now; another code when
            what came is no such answer.
        """
        if not self._objects.begun:
            data = data if self._words else data.lstrip(BLANKS)
            if self._words or (data and not data.startswith(b"{")):
                self._refuse_words(data)
                return None
        message, _ = self._objects.feed(data)
        return None if message is None else parse_bare_work(message)

    def _refuse_words(self, data: bytes) -> None:
        """Words come from a frontend that has too many connections, before it knows in which way it is asked."""
        self._words += data
        line, newline, _ = self._words.partition(b"\n")
        if not newline and len(line) <= _MOST_LINE_BYTES:
            return
        text = line[:_SHOWN_BYTES].decode("utf-8", "replace").strip()
        if line.startswith(_BUSY):
            raise ProtocolError("busy", text)
        raise ProtocolError("bad-argument", f"this is no answer of a queue's frontend: {text}")
