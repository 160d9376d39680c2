"""The frontend's answer to a peer that asked in bare JSON, as it comes: in any pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from fakedev.wire.bare_queue import BareWork, parse_bare_work
from fakedev.wire.braces import BLANKS, ObjectReader
from fakedev.wire.errors import ProtocolError

T = TypeVar("T")

_BUSY: Final = b"error busy"
_MOST_LINE_BYTES: Final = 4096
_SHOWN_BYTES: Final = 200


class BareReader(Generic[T]):
    """Gathers the one answer of a connection.

    :param parse: makes the answer of its object; raises ProtocolError.
    """

    def __init__(self, parse: Callable[[bytes], T]) -> None:
        self._parse = parse
        self._objects = ObjectReader()
        self._words = b""

    def feed(self, data: bytes) -> T | None:
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
        return None if message is None else self._parse(message)

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


class BareWorkReader(BareReader[BareWork]):
    """Gathers what a backend is answered."""

    def __init__(self) -> None:
        super().__init__(parse_bare_work)
