"""Long work, a bounded part of it at a time, so that whoever drives it can do other things in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

Thing = TypeVar("Thing")

#: Does one piece of a long work at this time; whether there may be more of it.
Step = Callable[[float], bool]

#: Pieces of one slice: some milliseconds, when peers must be told of each.
MAX_AT_ONCE: Final = 100


class Slices:
    """Long works, one after the other. The first slice is done at once, when nothing else is under way."""

    __slots__ = ("_begun_seconds", "_going_on", "_steps")

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()
        self._begun_seconds = 0.0
        self._going_on = False

    @property
    def due_seconds(self) -> float | None:
        """When the next slice should be done: a time that is over; None when all is done."""
        return self._begun_seconds if self._steps else None

    def begin(self, step: Step, now: float) -> None:
        """Begin a work."""
        self._steps.append(step)
        if len(self._steps) == 1 and not self._going_on:
            self._begun_seconds = now
            self.go_on(now)

    def go_on(self, now: float) -> None:
        """Do a slice."""
        self._going_on = True  # a piece may begin further work
        try:
            for _ in range(MAX_AT_ONCE):
                if not self._steps:
                    return
                if not self._steps[0](now):
                    self._steps.popleft()
        finally:
            self._going_on = False


def for_each(things: Iterable[Thing], do: Callable[[Thing, float], None]) -> Step:
    """The work of doing something to each of some things."""
    rest = iter(things)

    def step(now: float) -> bool:
        for thing in rest:
            do(thing, now)
            return True
        return False

    return step
