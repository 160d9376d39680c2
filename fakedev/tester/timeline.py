"""What happened when, in steps that get longer as the run does: constant memory, however long it lasts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from fakedev.tester.quantiles import COARSE, Histogram

#: Steps that are kept, an even number; when there are more, each two become one.
MAX_STEPS: Final = 240
_FIRST_STEP_SECONDS: Final = 1.0


@dataclass
class Step:
    """What happened in one step of time.

    :ivar outstanding: requests under way, the most that was seen in the step.
    :ivar total: of the answered requests, from the intended start to the answer.
    """

    started: int = 0
    successes: int = 0
    failures: int = 0
    outstanding: int = 0
    total: Histogram = field(default_factory=lambda: Histogram(COARSE))

    def merge(self, other: Step) -> None:
        """Make of this step and the one after it one step."""
        self.started += other.started
        self.successes += other.successes
        self.failures += other.failures
        self.outstanding = max(self.outstanding, other.outstanding)
        self.total.merge(other.total)


class Timeline:
    """The steps since the begin.

    :ivar step_seconds: how long each step is now: 1 s, doubled as often as needed.
    """

    def __init__(self, begin: float) -> None:
        self._begin = begin
        self.step_seconds = _FIRST_STEP_SECONDS
        self._steps: dict[int, Step] = {}

    def at(self, now: float) -> Step:
        """The step of this time, to be counted in."""
        place = int((now - self._begin) / self.step_seconds)
        while place >= MAX_STEPS:
            self._halve()
            place = int((now - self._begin) / self.step_seconds)
        step = self._steps.get(place)
        if step is None:
            step = self._steps[place] = Step()
        return step

    def steps(self, now: float) -> Iterator[tuple[float, Step]]:
        """Each step since the begin with the seconds at which it began; those in which nothing happened are empty."""
        self.at(now)
        for place in range(int((now - self._begin) / self.step_seconds) + 1):
            yield place * self.step_seconds, self._steps.get(place) or Step()

    def _halve(self) -> None:
        self.step_seconds *= 2
        halved: dict[int, Step] = {}
        for place in sorted(self._steps):
            if place // 2 in halved:
                halved[place // 2].merge(self._steps[place])
            else:
                halved[place // 2] = self._steps[place]
        self._steps = halved
