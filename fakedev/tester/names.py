"""Counts by names that others choose: nodes, devices, pods, error texts. Bounded, whatever they send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar

T = TypeVar("T")

#: How many names are told apart; all further ones share one entry.
MOST_NAMES: Final = 4096
#: The entry of the names beyond; no peer can choose it, since names are kept without line ends.
OTHERS: Final = "(others)\n"
#: Places of all names that there can be.
ALL: Final = range(MOST_NAMES + 1)
#: How much of a name or text is kept, in characters.
MOST_CHARACTERS: Final = 200


class ByName(Generic[T]):
    """A value for each name, made when the name comes first.

    :param make: makes the value of a new name.
    """

    def __init__(self, make: Callable[[], T], most_names: int = MOST_NAMES) -> None:
        self._make = make
        self._most_names = most_names
        self._values: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        value = self._values.get(name)
        if value is not None:
            return value
        name = kept_text(name)
        if name not in self._values and len(self._values) >= self._most_names:
            name = OTHERS
        return self._values.setdefault(name, self._make())

    def __len__(self) -> int:
        return len(self._values)

    def items(self, which: range = ALL) -> Iterator[tuple[str, T]]:
        """Names with their values, in the order of names, the entry for all others last.

        :param which: the places of those that are wanted.
        """
        for name in sorted(self._values, key=lambda name: (name == OTHERS, name))[which.start : which.stop]:
            yield name.rstrip("\n"), self._values[name]

    def values(self) -> Iterable[T]:
        """All values, in any order."""
        return self._values.values()


def kept_text(text: str) -> str:
    """A text as it is kept: one line, not too long, nothing that steers a terminal."""
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:MOST_CHARACTERS])
    return shown if len(text) <= MOST_CHARACTERS and len(shown) <= MOST_CHARACTERS else shown[:MOST_CHARACTERS] + "..."
