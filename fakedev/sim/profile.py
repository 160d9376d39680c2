"""Activity profiles as people write them. Imports no NumPy: small commands use it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from fakedev.sim.spec import FOREVER, Activity

#: Activities a workload may have.
MOST_ACTIVITIES: Final = 10_000
_SHORTEST_SECONDS: Final = 1e-6  # far shorter ones repeat more often than a float can count
_LONGEST_SECONDS: Final = 1e10


def parse_profile(text: str) -> tuple[Activity, ...]:
    """Activities of ``load:fluctuation:seconds,...``; fluctuation and seconds may be left out.

    :raises ValueError: naming the activity at fault.
    """
    activities = []
    for position, part in enumerate(text.split(","), 1):
        numbers = part.strip().split(":")
        if not 1 <= len(numbers) <= 3:
            raise ValueError(f"activity {position}: {part.strip()!r} is not load:fluctuation:seconds, as 98:1:0")
        try:
            values = [_parsed(number) for number in numbers]
        except ValueError:
            raise ValueError(f"activity {position}: {part.strip()!r} has something that is no number") from None
        activities.append([*values, 0.0, 0.0][:3])
    return checked_profile([(load, fluctuation, seconds) for load, fluctuation, seconds in activities])


def _parsed(text: str) -> float:
    if "_" in text:
        raise ValueError("Python takes 1_000 for a number, nobody else does")
    return float(text)


def checked_profile(activities: Sequence[tuple[float, float, float]]) -> tuple[Activity, ...]:
    """(load %, fluctuation %, seconds) triples as activities; 0 seconds in the last one: until stopped.

    The load stays within 0 to 100 with its fluctuation, as the original's server demands.

    :raises ValueError: naming the activity at fault.
    """
    if not activities:
        raise ValueError("a profile needs at least one activity")
    if len(activities) > MOST_ACTIVITIES:
        raise ValueError(f"{len(activities)} activities are too many: at most {MOST_ACTIVITIES}")
    checked = []
    for position, (load, fluctuation, seconds) in enumerate(activities, 1):
        reason = _fault(load, fluctuation, seconds, last=position == len(activities))
        if reason:
            raise ValueError(f"activity {position}: {reason}")
        checked.append(Activity(float(load), float(fluctuation), float(seconds) if seconds else FOREVER))
    return tuple(checked)


def _fault(load: float, fluctuation: float, seconds: float, *, last: bool) -> str:
    """What is wrong with one activity; empty when nothing is."""
    if not all(math.isfinite(number) for number in (load, fluctuation, seconds)):
        return "numbers must be finite"
    if not 0 <= load <= 100:
        return f"load {load:g} is not within 0 to 100"
    if not 0 <= fluctuation <= load:
        return f"fluctuation {fluctuation:g} is not within 0 and the load {load:g}"
    if load + fluctuation > 100:
        return f"load {load:g} + fluctuation {fluctuation:g} is over 100"
    if not 0 <= seconds <= _LONGEST_SECONDS:
        return f"{seconds:g} seconds is not within 0 to {_LONGEST_SECONDS:g}"
    if 0 < seconds < _SHORTEST_SECONDS:
        return f"{seconds:g} seconds is less than a microsecond"
    if seconds == 0 and not last:
        return "0 seconds (until stopped) is for the last activity only"
    return ""


def format_profile(activities: Sequence[Activity]) -> str:
    """Activities as :func:`parse_profile` reads them, to the last digit."""
    return ",".join(
        f"{_number(a.load)}:{_number(a.fluctuation)}:{_number(0.0 if a.seconds >= FOREVER else a.seconds)}"
        for a in activities
    )


def _number(value: float) -> str:
    return repr(int(value)) if value == int(value) else repr(value)
