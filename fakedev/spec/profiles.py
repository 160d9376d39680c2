"""Activity profiles as people write them. Imports no NumPy: small commands use it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from fakedev.spec.fleet import FOREVER, Activity
from fakedev.spec.value_functions import (
    LONGEST_SECONDS,
    SHORTEST_SECONDS,
    Function,
    Value,
    bounds,
    format_number,
    format_value,
    is_call,
    needs_end,
    parse_call,
    parse_seconds,
)
from fakedev.spec.value_units import LOAD, Unit

#: Activities a workload may have; each value of ``steps`` counts as one.
MAX_ACTIVITIES: Final = 10_000


def parse_profile(text: str, unit: Unit = LOAD) -> tuple[Activity, ...]:
    """Activities of ``value:fluctuation:seconds,...``; fluctuation and seconds (also as 5m) may be left out.

    :raises ValueError: naming the activity at fault.
    """
    activities: list[tuple[Value, float, float]] = []
    for position, part in enumerate(_parts(text), 1):
        words = part.strip().split(":")
        if not 1 <= len(words) <= 3:
            raise ValueError(f"activity {position}: {part.strip()!r} is not {unit.noun}:fluctuation:seconds, as 98:1:0")
        try:
            value = parse_call(words[0], unit.parse) if is_call(words[0]) else unit.parse(words[0])
            fluctuation = unit.parse(words[1]) if len(words) > 1 else 0.0
            seconds = parse_seconds(words[2]) if len(words) > 2 else 0.0
        except ValueError as error:
            raise ValueError(f"activity {position}: {error}") from None
        activities.append((value, fluctuation, seconds))
    return checked_profile(activities, unit)


def checked_profile(activities: Sequence[tuple[Value, float, float]], unit: Unit = LOAD) -> tuple[Activity, ...]:
    """(value, fluctuation, seconds) triples as activities; 0 seconds in the last one: until stopped.

    The value stays within 0 to the unit's most with its fluctuation, for loads as the original's server demands.

    :raises ValueError: naming the activity at fault.
    """
    if not activities:
        raise ValueError("a profile needs at least one activity")
    count = sum(_segments(value) for value, _, _ in activities)
    if count > MAX_ACTIVITIES:
        raise ValueError(f"{count} activities are too many: at most {MAX_ACTIVITIES}")
    checked = []
    for position, (value, fluctuation, seconds) in enumerate(activities, 1):
        reason = _fault(value, fluctuation, seconds, unit, last=position == len(activities))
        if reason:
            raise ValueError(f"activity {position}: {reason}")
        plain = value if isinstance(value, Function) else float(value)
        checked.append(Activity(plain, float(fluctuation), float(seconds) if seconds else FOREVER))
    return tuple(checked)


def format_profile(activities: Sequence[Activity], unit: Unit = LOAD) -> str:
    """Activities as :func:`parse_profile` reads them, to the last digit."""
    return ",".join(
        f"{format_value(a.value, unit.show)}:{unit.show(a.fluctuation)}:"
        f"{format_number(0.0 if a.seconds >= FOREVER else a.seconds)}"
        for a in activities
    )


def _parts(text: str) -> Iterator[str]:
    """The activities of a text: those commas part them that are in no brackets."""
    if not is_call(text):
        yield from text.split(",")
        return
    depth = begin = 0
    for place, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "," and depth <= 0:
            yield text[begin:place]
            begin = place + 1
    yield text[begin:]


def _segments(value: Value) -> int:
    return len(value.arguments) if isinstance(value, Function) and value.name == "steps" else 1


def _fault(value: Value, fluctuation: float, seconds: float, unit: Unit, *, last: bool) -> str:
    """What is wrong with one activity; empty when nothing is."""
    low, high = bounds(value)
    if not all(math.isfinite(number) for number in (low, high, fluctuation, seconds)):
        return "numbers must be finite"
    whose = f"{value.name}: " if isinstance(value, Function) else ""
    for end in (low, high):
        if not 0 <= end <= unit.most:
            return f"{whose}{unit.noun} {unit.brief(end)} is not within 0 to {unit.brief(unit.most)}"
    if not 0 <= fluctuation <= low:
        return f"{whose}fluctuation {unit.brief(fluctuation)} is not within 0 and the {unit.noun} {unit.brief(low)}"
    if high + fluctuation > unit.most:
        return (
            f"{whose}{unit.noun} {unit.brief(high)} + fluctuation {unit.brief(fluctuation)} is over "
            f"{unit.brief(unit.most)}"
        )
    if not 0 <= seconds <= LONGEST_SECONDS:
        return f"{seconds:g} seconds is not within 0 to {LONGEST_SECONDS:g}"
    if 0 < seconds < SHORTEST_SECONDS:
        return f"{seconds:g} seconds is less than a microsecond"
    if seconds == 0 and not last:
        return "0 seconds (until stopped) is for the last activity only"
    if seconds == 0 and needs_end(value):
        return f"{whose}is spread over its activity, which needs seconds"
    return ""
