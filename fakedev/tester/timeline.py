"""Statistics over time, in steps whose length grows with the run: constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from fakedev.tester.quantiles import COARSE, QuantileSketch

#: Maximum number of steps, an even number; when there are more, each pair becomes one.
MAX_STEPS: Final = 240
_FIRST_STEP_SECONDS: Final = 1.0


@dataclass
class Step:
    """The statistics of one step.

    :ivar outstanding: the maximum of requests in flight.
    :ivar total: of the answered requests, from the intended start to the answer.
    """

    started: int = 0
    successes: int = 0
    failures: int = 0
    outstanding: int = 0
    total: QuantileSketch = field(default_factory=lambda: QuantileSketch(COARSE))

    def merge(self, other: Step) -> None:
        """Add the statistics of another step."""
        self.started += other.started
        self.successes += other.successes
        self.failures += other.failures
        self.outstanding = max(self.outstanding, other.outstanding)
        self.total.merge(other.total)


class Timeline:
    """The steps since the start.

    :ivar step_seconds: the present length of a step: 1 s, doubled as often as necessary.
    """

    def __init__(self, begin: float) -> None:
        self._begin = begin
        self.step_seconds = _FIRST_STEP_SECONDS
        self._steps: dict[int, Step] = {}

    def at(self, now: float) -> Step:
        """The step that contains this time, to count in."""
        place = int((now - self._begin) / self.step_seconds)
        while place >= MAX_STEPS:
            self._halve()
            place = int((now - self._begin) / self.step_seconds)
        step = self._steps.get(place)
        if step is None:
            step = self._steps[place] = Step()
        return step

    def steps(self, now: float) -> Iterator[tuple[float, Step]]:
        """Each step since the start, preceded by its begin in seconds."""
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
