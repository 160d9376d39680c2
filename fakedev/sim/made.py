"""Arrays of a level that are made when somebody looks at them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

Values = TypeVar("Values")


class Made(Mapping[str, Values]):
    """Arrays by name, each made when it is asked for the first time.

    :param names: of all there are.
    :param make: makes one of them.
    """

    def __init__(self, names: Mapping[str, object], make: Callable[[str], Values]) -> None:
        self._names = names
        self._make = make
        self._made: dict[str, Values] = {}

    def __getitem__(self, name: str) -> Values:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._made:
            self._made[name] = self._make(name)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Overlaid(Mapping[str, Values]):
    """Arrays by name, with others in the place of some, or beside them: nothing is made before it is asked for.

    :param below: those that may be given others.
    """

    def __init__(self, below: Mapping[str, Values]) -> None:
        self._below = below
        self._above: dict[str, Values] = {}
        self._count = len(below)

    def __setitem__(self, name: str, values: Values) -> None:
        self._count += name not in self
        self._above[name] = values

    def __getitem__(self, name: str) -> Values:
        return self._above[name] if name in self._above else self._below[name]

    def __contains__(self, name: object) -> bool:
        return name in self._above or name in self._below

    def __iter__(self) -> Iterator[str]:
        yield from self._below
        yield from (name for name in self._above if name not in self._below)

    def __len__(self) -> int:
        return self._count


def overlaid(below: Mapping[str, Values]) -> dict[str, Values] | Overlaid[Values]:
    """Arrays some of which are to be given others; ``below`` stays as it is."""
    return dict(below) if isinstance(below, dict) else Overlaid(below)
