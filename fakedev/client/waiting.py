"""Waiting in simulated time: the clock advances until a condition is true."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fakedev.client.errors import NeverTrue
from fakedev.spec.units import format_duration, parse_duration

T = TypeVar("T")
#: Simulated time: seconds, or a text as ``90s`` or ``1h30m``.
Duration = str | float


def seconds_of(duration: Duration) -> float:
    """The seconds of a duration.

    :raises ValueError: for a text that is none.
    """
    return parse_duration(duration) if isinstance(duration, str) else float(duration)


def wait_until(
    predicate: Callable[[], T], advance: Callable[[float], object], step: Duration, at_most: Duration
) -> T:
    """Advance a clock until a condition is true, which is checked before the first step, too.

    :param predicate: returns something true when the wait is over.
    :param advance: advances the clock by so many seconds.
    :returns: what the predicate returned.
    :raises NeverTrue: when it was not true within ``at_most``.
    :raises ValueError: for durations that are none, or a step that is not positive.
    """
    step_seconds, remaining_seconds = seconds_of(step), seconds_of(at_most)
    if not step_seconds > 0:
        raise ValueError(f"advance: must be more than 0, not {step!r}")
    while True:
        value = predicate()
        if value:
            return value
        if remaining_seconds <= 0:
            name = getattr(predicate, "__name__", repr(predicate))
            limit = at_most if isinstance(at_most, str) else format_duration(at_most)
            what = "the condition" if name == "<lambda>" else name
            raise NeverTrue(f"{what} is still not true after {limit} of simulated time: it gave {value!r}")
        step_seconds = min(step_seconds, remaining_seconds)
        advance(step_seconds)
        remaining_seconds = round(remaining_seconds - step_seconds, 9)
