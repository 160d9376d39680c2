"""Rates of arrivals over time, with their integral and its inverse."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import Protocol


class RateCurve(Protocol):
    """A rate over the seconds of a run; equal when it was made with equal values."""

    def rate(self, seconds: float) -> float:
        """Arrivals per second at this time."""

    def time_of(self, count: float) -> float:
        """When this number of arrivals is expected since the start; infinity for never."""


@dataclass
class Lines(RateCurve):
    """A rate of straight lines between points.

    :param points: (seconds, rate), the first at 0, the seconds not decreasing; two points at the same time are a step.
    :param ends: no arrivals after the last point; else its rate continues.
    """

    points: InitVar[Sequence[tuple[float, float]]]
    ends: InitVar[bool] = False
    _times: list[float] = field(init=False)
    _rates: list[float] = field(init=False)
    _counts: list[float] = field(init=False)
    _last_rate: float = field(init=False)

    def __post_init__(self, points: Sequence[tuple[float, float]], ends: bool) -> None:
        self._times = [seconds for seconds, _ in points]
        self._rates = [rate for _, rate in points]
        if self._times[0] != 0:
            raise ValueError("a rate begins at 0 s")
        self._last_rate = 0.0 if ends else self._rates[-1]
        self._counts = [0.0]
        for place in range(1, len(points)):
            width = self._times[place] - self._times[place - 1]
            if width < 0:
                raise ValueError(f"the times of a rate must not fall: {self._times[place]:g} s")
            self._counts.append(self._counts[-1] + width * (self._rates[place - 1] + self._rates[place]) / 2)
        if min(self._rates) < 0:
            raise ValueError("a rate must not be below 0")

    def rate(self, seconds: float) -> float:
        place = bisect_right(self._times, seconds)
        if place == len(self._times):
            return self._last_rate
        begin, end = self._times[place - 1], self._times[place]
        share = (seconds - begin) / (end - begin)
        return self._rates[place - 1] * (1 - share) + self._rates[place] * share

    def time_of(self, count: float) -> float:
        place = bisect_right(self._counts, count)
        begin = self._times[place - 1]
        rest = count - self._counts[place - 1]
        if place == len(self._counts):
            if rest == 0 and begin > 0:
                return begin
            return begin + rest / self._last_rate if self._last_rate > 0 else math.inf
        width = self._times[place] - begin
        first, last = self._rates[place - 1], self._rates[place]
        # first * x + slope / 2 * x^2 = rest, in the numerically stable form.
        root = math.sqrt(max(0.0, first * first + 2 * (last - first) / width * rest))
        return begin + min(width, 2 * rest / (first + root)) if first + root > 0 else begin


@dataclass(frozen=True)
class Sine(RateCurve):
    """A sine wave around a mean, which first rises.

    :param mean: arrivals per second.
    :param amplitude: at most the mean.
    """

    mean: float
    amplitude: float
    period_seconds: float

    def __post_init__(self) -> None:
        if not 0 <= self.amplitude <= self.mean or self.mean <= 0:
            raise ValueError("a sine's mean must be above 0, and its amplitude between 0 and the mean")
        if self.period_seconds <= 0:
            raise ValueError("a sine's period must be above 0")

    @property
    def _turn(self) -> float:
        return 2 * math.pi / self.period_seconds

    def rate(self, seconds: float) -> float:
        return self.mean + self.amplitude * math.sin(self._turn * seconds)

    def time_of(self, count: float) -> float:
        swing = 2 * self.amplitude / self._turn  # the integral is between mean * t and mean * t + swing
        low, high = max(0.0, (count - swing) / self.mean), count / self.mean
        for _ in range(60):
            middle = (low + high) / 2
            if self._count(middle) < count:
                low = middle
            else:
                high = middle
        return high

    def _count(self, seconds: float) -> float:
        return self.mean * seconds + self.amplitude / self._turn * (1 - math.cos(self._turn * seconds))


def constant(rate: float) -> Lines:
    """A constant rate."""
    return Lines([(0.0, rate)])


def ramp(first: float, last: float, seconds: float) -> Lines:
    """A linear change from one rate to another, which then continues."""
    return Lines([(0.0, first), (seconds, last)])


def steps(rates: Sequence[float], seconds: float) -> Lines:
    """Each rate for the same time; the last one continues."""
    points = []
    for place, rate in enumerate(rates):
        points += [(place * seconds, rate), ((place + 1) * seconds, rate)]
    return Lines(points)


def spike(base: float, peak: float, begin_seconds: float, seconds: float) -> Lines:
    """A constant rate with one peak."""
    end = begin_seconds + seconds
    return Lines([(0.0, base), (begin_seconds, base), (begin_seconds, peak), (end, peak), (end, base)])
