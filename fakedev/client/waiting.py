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


class Wait:
    """A wait until a condition is true: how far the clock advances between its checks.

    :param predicate: the condition; its name is for the error.
    :param step: the simulated time of a step.
    :param at_most: the simulated time after which the wait fails.
    :raises ValueError: for durations that are none, or a step that is not positive.
    """

    def __init__(self, predicate: Callable[[], object], step: Duration, at_most: Duration) -> None:
        self._step_seconds, self._remaining_seconds = seconds_of(step), seconds_of(at_most)
        if not self._step_seconds > 0:
            raise ValueError(f"advance: must be more than 0, not {step!r}")
        self._predicate = predicate
        self._at_most = at_most

    def next_seconds(self, value: object) -> float:
        """The simulated seconds of the next step; the last one is shorter.

        :param value: what the condition gave.
        :raises NeverTrue: when the time is over.
        """
        if self._remaining_seconds <= 0:
            name = getattr(self._predicate, "__name__", repr(self._predicate))
            limit = self._at_most if isinstance(self._at_most, str) else format_duration(self._at_most)
            what = "the condition" if name == "<lambda>" else name
            raise NeverTrue(f"{what} is still not true after {limit} of simulated time: it gave {value!r}")
        seconds = min(self._step_seconds, self._remaining_seconds)
        self._remaining_seconds = round(self._remaining_seconds - seconds, 9)
        return seconds


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
    wait = Wait(predicate, step, at_most)
    while not (value := predicate()):
        advance(wait.next_seconds(value))
    return value
