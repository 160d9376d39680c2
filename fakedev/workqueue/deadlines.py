"""Deadlines in a heap."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

#: Stale entries stay in the heap until there are more of them than of current ones by this number.
_SLACK: Final = 64


class Deadlines(Generic[Key]):
    """At most one deadline for each key. Setting, clearing and finding the next one cost O(log n)."""

    __slots__ = ("_entries", "_heap", "_set")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Key]] = []
        self._entries: dict[Key, int] = {}  # the number of the current heap entry
        self._set = 0

    def __len__(self) -> int:
        return len(self._entries)

    def set(self, key: Key, seconds: float) -> None:
        """Set or replace the deadline of a key."""
        self._set += 1
        self._entries[key] = self._set
        heapq.heappush(self._heap, (seconds, self._set, key))
        self._tidy()

    def clear(self, key: Key) -> None:
        """Remove the deadline of a key, if it has one."""
        if self._entries.pop(key, None) is not None:
            self._tidy()

    def next(self) -> float | None:
        """The earliest deadline; None if there is none."""
        self._skip()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Key | None:
        """Remove and return the key with the earliest deadline, if that is over; else None."""
        self._skip()
        if not self._heap or self._heap[0][0] > now:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._entries[key]
        return key

    def _skip(self) -> None:
        heap, entries = self._heap, self._entries
        while heap and entries.get(heap[0][2]) != heap[0][1]:
            heapq.heappop(heap)

    def _tidy(self) -> None:
        if len(self._heap) > 2 * len(self._entries) + _SLACK:
            self._heap = [entry for entry in self._heap if self._entries.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)
