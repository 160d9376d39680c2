"""The recent past, for charts: every entry of the last minutes, and every tenth second of the hour before."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final, Generic, Protocol, TypeVar

#: Simulated or real seconds between the entries that are kept longer, and how many of them: an hour.
SPARSE_SECONDS: Final = 10.0
MAX_SPARSE: Final = 360
_ROUNDING_SECONDS: Final = 1e-6


class Timed(Protocol):
    """An entry with its time."""

    @property
    def seconds(self) -> float:
        """The time, rising from entry to entry."""


Entry = TypeVar("Entry", bound=Timed)


class Recent(Generic[Entry]):
    """The last entries: ``dense_count`` of them, and before those one for each SPARSE_SECONDS.

    :param sparse_count: maximum number of the latter.
    """

    __slots__ = ("_dense", "_sparse")

    def __init__(self, dense_count: int, sparse_count: int = MAX_SPARSE) -> None:
        self._dense: deque[Entry] = deque(maxlen=dense_count)
        self._sparse: deque[Entry] = deque(maxlen=sparse_count)

    def __iter__(self) -> Iterator[Entry]:
        """All entries, the oldest first; none twice."""
        first = self._dense[0].seconds if self._dense else 0.0
        return chain((entry for entry in self._sparse if entry.seconds < first), self._dense)

    def add(self, entry: Entry) -> None:
        """Add the latest entry."""
        self._dense.append(entry)
        if not self._sparse or entry.seconds >= self._sparse[-1].seconds + SPARSE_SECONDS - _ROUNDING_SECONDS:
            self._sparse.append(entry)

    def within(self, seconds: float | None) -> Iterable[Entry]:
        """The entries of the last ``seconds``, the oldest first; None: the dense ones."""
        if seconds is None or not self._dense:
            return self._dense
        begin = self._dense[-1].seconds - seconds
        return [entry for entry in self if entry.seconds >= begin]
