"""Long tasks in slices of bounded size, so that the reactor can serve peers in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

Thing = TypeVar("Thing")

#: Does one step of a task; returns whether there may be more steps.
Step = Callable[[float], bool]

#: Steps of one slice: some milliseconds, if each step notifies peers.
MAX_AT_ONCE: Final = 100


class Slices:
    """A queue of long tasks. The first slice of a task runs at once if no other task is pending.

    :ivar due_seconds: when the next slice is due, which is at once; None if there is no task.
    """

    __slots__ = ("_steps", "due_seconds")

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()
        self.due_seconds: float | None = None

    def begin(self, step: Step, now: float) -> None:
        """Add a task. A step may add further tasks, which wait for their turn."""
        self._steps.append(step)
        if self.due_seconds is None:
            self.due_seconds = now
            self.go_on(now)

    def go_on(self, now: float) -> None:
        try:
            for _ in range(MAX_AT_ONCE):
                if not self._steps:
                    return
                if not self._steps[0](now):
                    self._steps.popleft()
        finally:
            if not self._steps:
                self.due_seconds = None


def for_each(things: Iterable[Thing], do: Callable[[Thing, float], None]) -> Step:
    """The task that calls ``do`` with each of the things."""
    remaining = iter(things)

    def step(now: float) -> bool:
        for thing in remaining:
            do(thing, now)
            return True
        return False

    return step
