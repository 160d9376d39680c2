"""What watches tell a controller: long lists are taken in pieces, so that other work of the reactor goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Final

#: Nodes or pods of a list that are taken in one turn of the reactor: a new node costs 0.3 ms, a pod 0.1 ms.
STEPS_AT_ONCE: Final = 20


class Inbox:
    """Lists and changes, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[Iterator[None]] = deque()

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def put_list(self, steps: Iterator[None]) -> None:
        """A list: each step takes one object of it. A short one is taken at once."""
        is_first = not self._waiting
        self._waiting.append(steps)
        if is_first:
            self.take()

    def put(self, call: Callable[..., object], *arguments: Any) -> None:
        """A change: it is passed on by this call, at once unless a list waits."""
        if self._waiting:
            self._waiting.append(_once(call, *arguments))
        else:
            call(*arguments)

    def take(self, most: int = STEPS_AT_ONCE) -> None:
        """Take at most so many steps of what waits."""
        left = most
        while self._waiting and left:
            taken = sum(1 for _ in islice(self._waiting[0], left))
            if taken == left:
                return  # there may be more of it
            left -= taken
            self._waiting.popleft()

    def clear(self) -> None:
        """Forget what waits."""
        self._waiting.clear()


def _once(call: Callable[..., object], *arguments: Any) -> Iterator[None]:
    call(*arguments)
    yield
