"""How the peer of a line port speaks: found out by its first bytes, and then the format of its messages and answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final

from twisted.protocols.basic import LineReceiver

from fakedev.lines.framing import BARE, JSON_LINES, MAX_BYTES, WORDS, Dialect, Opening
from fakedev.lines.grammar import Grammar, ProtocolError, Request
from fakedev.lines.json_lines import parse_json_line
from fakedev.lines.words import parse_words

_PARSERS: Final[Mapping[Dialect, Callable[[bytes, Grammar], Request]]] = {
    WORDS: parse_words,
    JSON_LINES: parse_json_line,
}


class DialectMixin(LineReceiver, ABC):
    """Starts a LineReceiver in raw mode, until the first bytes show the dialect.

    Then words and JSON lines are received in line mode, and bare JSON in raw mode. A whole object of raw mode is
    passed to ``lineReceived``, too.

    :ivar dialect: how the peer speaks; None until that is clear.
    """

    line_mode = 0
    delimiter = b"\n"
    MAX_LENGTH = MAX_BYTES
    #: Parses a line that is not blank; see ``words.py`` and ``json_lines.py``.
    _parse: Callable[[bytes, Grammar], Request]

    dialect: Dialect | None = None
    _reader: Opening | None = None  # of the first bytes, and of bare JSON

    def rawDataReceived(self, data: bytes) -> None:
        """Read the first bytes until they show the dialect, and bare JSON after that."""
        try:
            self._reader = reader = self._reader or Opening(self.MAX_LENGTH)
            if self.dialect is BARE:
                message, rest = reader.feed(data)
            elif (opened := reader.open(data)) is not None:
                self.dialect, message, rest = opened
            else:
                return
        except ProtocolError as error:
            self.send_error(error)
            return
        # LineReceiver keeps the rest for later, and drops it when serving the object closes the connection.
        if self.dialect is not BARE:
            self._reader, self._parse = None, _PARSERS[self.dialect]
            self.setLineMode(rest)
        elif rest:
            self.dataReceived(rest)
        if message:
            self.lineReceived(message)

    @abstractmethod
    def send_error(self, error: ProtocolError) -> None:
        """Send an error in the dialect of the peer."""

    @property
    def answer_dialect(self) -> Dialect:
        """The dialect of answers: what the first bytes suggest while it is not clear."""
        if self.dialect is None:
            return WORDS if self._reader is None else self._reader.likely_dialect()
        return self.dialect
