"""Parts of profiles with one shape: ``base + width x shape(t)``, with the formulas of value functions.

The integrals of shapes are those of :mod:`fakedev.spec.value_functions`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Positions
from fakedev.spec.fleet import FOREVER, Activity
from fakedev.spec.value_functions import Function


class Shape(enum.IntEnum):
    """The shapes of segments."""

    CONSTANT = 0
    RAMP = 1
    SINE = 2
    PULSE = 3
    DAILY = 4
    RANDOM = 5
    INCREASE = 6


#: The values of this shape and of those after it are drawn at random.
FIRST_DRAWN = Shape.RANDOM


class Segment(NamedTuple):
    """A part of a profile with one shape: one row of the arrays.

    :ivar period: seconds of one repetition of the shape; for a ramp its whole duration, for drawn values the time of
        one draw.
    :ivar active: for pulses their duration in seconds; for an increase the number of its draws.
    :ivar offset: for pulses their start in the period, for days their peak, in seconds.
    :ivar spread: of its length, as a natural logarithm; 0: it always lasts its seconds.
    """

    seconds: float
    base: float
    fluctuation: float
    shape: Shape = Shape.CONSTANT
    width: float = 0.0
    period: float = 1.0
    active: float = 0.0
    offset: float = 0.0
    spread: float = 0.0


def segments_of(activity: Activity) -> Iterator[Segment]:
    """The segments of an activity: one, but one for each value of ``steps``."""
    spread = math.log(activity.spread)
    for segment in _segments_of(activity):
        yield segment._replace(spread=spread) if spread else segment


def _segments_of(activity: Activity) -> Iterator[Segment]:
    value, fluctuation, seconds = activity.value, activity.fluctuation, activity.seconds
    if not isinstance(value, Function):
        yield Segment(seconds, value, fluctuation)
        return
    if value.name == "steps":
        each = seconds / len(value.arguments)
        yield from (Segment(each, step, fluctuation) for step in value.arguments)
        return
    base, other = value.arguments[:2]
    times = value.arguments[2:]
    width = other - base
    match value.name:
        case "ramp":
            yield Segment(seconds, base, fluctuation, Shape.RAMP, width, seconds)
        case "sine":
            yield Segment(seconds, base, fluctuation, Shape.SINE, other, times[0])
        case "square":
            yield Segment(seconds, base, fluctuation, Shape.PULSE, width, times[0], times[0] * times[1])
        case "spike":
            lasts, every = times
            yield Segment(seconds, base, fluctuation, Shape.PULSE, width, every, lasts, every - lasts)
        case "random":
            yield Segment(seconds, base, fluctuation, Shape.RANDOM, width, times[0])
        case "increase":
            draws = max(math.ceil(seconds / times[0] - 1e-9), 1) if seconds < FOREVER else 1
            yield Segment(seconds, base, fluctuation, Shape.INCREASE, width, times[0], draws)
        case "daily":
            yield Segment(seconds, base, fluctuation, Shape.DAILY, width, offset=times[0])


#: The integral of each shape of width 1 from 0 to t, for a period p and a pulse of a seconds from o on in each period.
_INTEGRALS: Final[Mapping[Shape, Callable[[Floats, Floats, Floats, Floats], Floats]]] = {
    # Of t / P, within one period.
    Shape.RAMP: lambda t, p, a, o: t * t / (2.0 * p),
    # Of sin(2 pi t / P): as a square of a sine, which loses no digits near 0.
    Shape.SINE: lambda t, p, a, o: p / np.pi * np.sin(np.pi * t / p) ** 2,
    Shape.PULSE: lambda t, p, a, o: np.floor(t / p) * a + np.clip(t - np.floor(t / p) * p - o, 0.0, a),
}


def shape_integrals(
    shape: Positions, width: Floats, period: Floats, active: Floats, offset: Floats, time: Floats
) -> Floats:
    """``width`` times the integral of each shape from 0 to ``time``: all of shape (N,), 0 for drawn shapes."""
    total = np.zeros(len(time))
    for code, integral in _INTEGRALS.items():
        rows = np.flatnonzero(shape == code)
        if len(rows):
            total[rows] = width[rows] * integral(time[rows], period[rows], active[rows], offset[rows])
    return total
