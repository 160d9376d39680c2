"""Value functions as a person would write them down, their means by slow integration, and means as of a tick."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from fakedev.fleet.entities.randomness import Floats, Keys, sub_keys, uniform
from fakedev.fleet.spec.value_functions import Function
from fakedev.fleet.spec.workload_spec import Activity
from fakedev.fleet.workloads.draws import Course, Spans
from fakedev.fleet.workloads.profile import Profiles

#: u(run through the profile, place of the activity, number of the draw).
Draws = Callable[[int, int, int], float]

_POINTS = 200


def tick_means(
    profiles: Profiles, begin: Floats, end: Floats, seconds: float, seed: int = 0, keys: Keys | None = None
) -> tuple[Floats, Floats]:
    """Mean load and fluctuation of workloads in a tick of some seconds, in which they run from begin to end."""
    keys = np.zeros(len(begin), dtype=np.uint64) if keys is None else keys
    spans = Spans(begin, end, np.full(len(begin), seconds), np.zeros(len(begin)))
    return Course(seed, keys, keys, spans, None, end, np.zeros(len(begin))).means(profiles, "load")


def draws_of(seed: int, key: int, quantity: str = "load") -> Draws:
    """The draws of a workload, in order."""

    def draw(run: int, place: int, number: int) -> float:
        keys = sub_keys(np.array([key], dtype=np.uint64), np.array([run * 16_384 + place], dtype=np.uint64))
        return float(uniform(seed, keys, quantity, np.array([number], dtype=np.uint64))[0])

    return draw


def value_at(activity: Activity, time: float, unit: Callable[[int], float]) -> float:
    """The value of an activity some seconds after it began.

    :param unit: u(n).
    """
    value, length = activity.value, activity.seconds
    if not isinstance(value, Function):
        return value
    a, b = (*value.arguments, 0.0)[:2]
    rest = value.arguments[2:]
    match value.name:
        case "ramp":
            return a + (b - a) * time / length
        case "sine":
            return a + b * math.sin(2 * math.pi * time / rest[0])
        case "square":
            return b if time % rest[0] < rest[0] * rest[1] else a
        case "spike":
            return b if time % rest[1] >= rest[1] - rest[0] else a
        case "random":
            return a + (b - a) * unit(math.floor(time / rest[0]))
        case "increase":
            number = math.floor(time / rest[0])
            # As the product: a length that exceeds whole intervals only by a rounding error has no interval more.
            return a + (b - a) * (number + unit(number)) / max(math.ceil(length / rest[0] - 1e-9), 1)
        case "steps":
            return value.arguments[min(int(len(value.arguments) * time / length), len(value.arguments) - 1)]
    raise AssertionError(value.name)


def jumps_of(activity: Activity, begin: float, end: float) -> list[float]:
    """The times between two at which an activity's value may jump, both of these included."""
    found = {begin, end}
    value = activity.value
    if isinstance(value, Function):
        rest = value.arguments[2:]
        period, offsets = {
            "square": lambda: (rest[0], (0.0, rest[0] * rest[1])),
            "spike": lambda: (rest[1], (0.0, rest[1] - rest[0])),
            "random": lambda: (rest[0], (0.0,)),
            "increase": lambda: (rest[0], (0.0,)),
            "sine": lambda: (rest[0], (0.0,)),
            "steps": lambda: (activity.seconds / len(value.arguments), (0.0,)),
            "ramp": lambda: (activity.seconds, (0.0,)),
        }[value.name]()
        for number in range(math.floor(begin / period), math.ceil(end / period) + 1):
            found |= {number * period + offset for offset in offsets}
    return sorted(time for time in found if begin <= time <= end)


def mean_of(profile: Sequence[Activity], begin: float, end: float, draws: Draws) -> float:
    """The mean value of a repeated profile between two times, by Simpson's rule between all jumps."""
    total = passed = 0.0
    run = 0
    while passed < end:
        place = 0
        for activity in profile:
            start, stop = max(begin, passed) - passed, min(end, passed + activity.seconds) - passed
            if start < stop:
                for left, right in pairwise(jumps_of(activity, start, stop)):
                    total += _simpson(activity, left, right, lambda n, run=run, place=place: draws(run, place, n))
            passed += activity.seconds
            is_steps = isinstance(activity.value, Function) and activity.value.name == "steps"
            place += len(activity.value.arguments) if is_steps else 1
            if passed >= end:
                break
        run += 1
    return total / (end - begin)


def _simpson(activity: Activity, left: float, right: float, unit: Callable[[int], float]) -> float:
    width = (right - left) / _POINTS
    if width <= 0:
        return 0.0
    # A jump is looked at from inside.
    margin = width * 1e-6
    times = [min(max(left + width * n, left + margin), right - margin) for n in range(_POINTS + 1)]
    values = [value_at(activity, time, unit) for time in times]
    return width / 3 * (values[0] + values[-1] + 4 * sum(values[1:-1:2]) + 2 * sum(values[2:-1:2]))
