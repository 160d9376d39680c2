"""Value functions as arrays: each is ``base + width x shape(t)``, and the integrals of the shapes are closed forms.

The formulas are those of :mod:`fakedev.spec.value_functions`. Drawn shapes have no closed form: what their draws add
is in :mod:`fakedev.sim.workloads.draws`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.randomness import Floats
from fakedev.spec.fleet import FOREVER, Activity
from fakedev.spec.value_functions import Function

Codes = NDArray[np.int64]


class Shape(enum.IntEnum):
    """The kinds of shapes."""

    CONSTANT = 0
    RAMP = 1
    SINE = 2
    PULSE = 3
    RANDOM = 4
    INCREASE = 5


#: From here on values are drawn.
FIRST_DRAWN = Shape.RANDOM


class Segment(NamedTuple):
    """A stretch of one shape, as one row of the arrays.

    :ivar period: seconds in which the shape comes once; of a ramp all it lasts, of drawn values one draw's.
    :ivar active: of pulses how long they last; of an increase the number of its draws.
    :ivar offset: of pulses where they begin in the period.
    """

    seconds: float
    base: float
    fluctuation: float
    shape: Shape = Shape.CONSTANT
    width: float = 0.0
    period: float = 1.0
    active: float = 0.0
    offset: float = 0.0


def segments_of(activity: Activity) -> Iterator[Segment]:
    """An activity as segments: one, but of ``steps`` one for each value."""
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


def shape_integrals(
    shape: Codes, width: Floats, period: Floats, active: Floats, offset: Floats, time: Floats
) -> Floats:
    """``width`` times the integral of each shape from 0 to ``time``, all of shape (N,); drawn ones count as 0."""
    total = np.zeros(len(time))
    for code, integral in ((Shape.RAMP, _ramp), (Shape.SINE, _sine), (Shape.PULSE, _pulse)):
        rows = np.flatnonzero(shape == code)
        if len(rows):
            total[rows] = width[rows] * integral(time[rows], period[rows], active[rows], offset[rows])
    return total


def _ramp(time: Floats, period: Floats, active: Floats, offset: Floats) -> Floats:
    """Of t / P, within one period."""
    return time * time / (2.0 * period)


def _sine(time: Floats, period: Floats, active: Floats, offset: Floats) -> Floats:
    """Of sin(2 pi t / P): as a square of a sine, which loses no digits near 0."""
    integral: Floats = period / np.pi * np.sin(np.pi * time / period) ** 2
    return integral


def _pulse(time: Floats, period: Floats, active: Floats, offset: Floats) -> Floats:
    """Of 1 from ``offset`` on for ``active`` seconds of each period, else 0."""
    periods = np.floor(time / period)
    within = time - periods * period
    integral: Floats = periods * active + np.clip(within - offset, 0.0, active)
    return integral
