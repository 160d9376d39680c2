"""Arrays of a level that are made when somebody looks at them."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping
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


def overlaid(below: Mapping[str, Values]) -> MutableMapping[str, Values]:
    """Arrays some of which are to be given others: none is made for that, and ``below`` stays as it is."""
    # ChainMap changes the first of its maps alone, so the second need not be one that can be changed.
    return dict(below) if isinstance(below, dict) else ChainMap({}, below)  # type: ignore[arg-type]
