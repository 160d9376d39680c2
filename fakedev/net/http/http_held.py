"""Answers that are on their way to peers, piece by piece: what slow peers keep in memory is bounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

#: What all answers on their way may hold together.
MOST_BYTES: Final = 256 * 1024 * 1024
#: Or so many times the size of the newest of them, where that is more: pages of as many ticks.
MOST_TIMES: Final = 8


@dataclass
class _Answer:
    """One body, whoever reads it."""

    pieces: Sequence[bytes]
    length: int
    readers: dict[object, Callable[[], None]] = field(default_factory=dict)


class HeldAnswers:
    """The bodies that are being sent, each counted once however many peers read it.

    A page of a tick that is over is kept by nobody but its readers. When peers that hardly read come tick after tick,
    each holds another page; those of the oldest are dropped before it is too much.

    :param most_bytes: what all may hold, or MOST_TIMES the newest.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._answers: dict[int, _Answer] = {}
        self._read_by: dict[object, int] = {}
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """What they hold now."""
        return self._bytes

    def add(self, reader: object, pieces: Sequence[bytes], drop: Callable[[], None]) -> None:
        """A peer begins to read a body.

        :param drop: ends that; the reader is forgotten already when it is called.
        """
        newest = id(pieces)
        answer = self._answers.get(newest)
        if answer is None:
            answer = self._answers[newest] = _Answer(pieces, sum(map(len, pieces)))
            self._bytes += answer.length
        answer.readers[reader] = drop
        self._read_by[reader] = newest
        most = max(self._most_bytes, MOST_TIMES * answer.length)
        for key in list(self._answers):
            if self._bytes > most and key != newest:
                for each, drop_it in list(self._answers[key].readers.items()):
                    self.remove(each)
                    drop_it()

    def remove(self, reader: object) -> None:
        """A peer has read its body, or is gone; nothing to do if it was forgotten already."""
        key = self._read_by.pop(reader, None)
        if key is None:
            return
        answer = self._answers[key]
        del answer.readers[reader]
        if not answer.readers:
            del self._answers[key]
            self._bytes -= answer.length
