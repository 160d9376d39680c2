"""Decides from the first bytes of a connection in which way its peer speaks."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from fakedev.wire.braces import BLANKS, MOST_BYTES, ObjectReader
from fakedev.wire.json_scan import has_top_level_key


class Way(enum.Enum):
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

    way: Way
    message: bytes
    rest: bytes


class Opening:
    """Reads a connection until it is clear which way it goes; content alone decides."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._objects = ObjectReader(most_bytes)

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
                return Opened(Way.WORDS, b"", data)
        message, rest = self._objects.feed(data)
        if message is None:
            return None
        return Opened(Way.JSON_LINES if has_top_level_key(message, "op") else Way.BARE, message, rest)

    def likely_way(self) -> Way:
        """The way in which to answer a peer whose first message did not become complete."""
        if not self._objects.begun:
            return Way.WORDS
        return Way.JSON_LINES if has_top_level_key(self._objects.incomplete, "op") else Way.BARE
