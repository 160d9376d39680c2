"""Activity profiles in requests, as texts or lists, for plain load and for single metrics. Imports no NumPy."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from fakedev.base.steps import Steps, result_of
from fakedev.base.units import (
    BYTES,
    BYTES_PER_SECOND,
    LOAD,
    SHARE,
    TRAFFIC,
    Unit,
    format_number,
    number_of,
    parse_duration,
    parse_number,
    parse_seconds,
)
from fakedev.fleet.spec.quantities import AS_TRAFFIC, ASKABLE, WITHOUT_SHARES, asked_quantity, metric_word
from fakedev.fleet.spec.value_functions import (
    LONGEST_SECONDS,
    SHORTEST_SECONDS,
    Function,
    Value,
    bounds,
    format_value,
    is_call,
    made,
    needs_end,
    parse_call,
)
from fakedev.fleet.spec.workload_spec import FOREVER, Activities, Activity, Intensity, MetricUse

#: The most activities of a workload; each value of ``steps`` counts as one.
MAX_ACTIVITIES: Final = 10_000
#: The most metrics of a workload.
MAX_METRICS: Final = 64
#: The largest spread of a length.
MAX_SPREAD: Final = 10.0
_MARKS: Final = re.compile(r"[(),]")
_BRACKETS: Final = re.compile(r"[()]")
_ONLY_NUMBERS: Final = re.compile(r"[0-9.:,]*")
#: Activities that are read, or checked, in one step: each takes some microseconds.
_AT_ONCE: Final = 100
#: After an activity: it does not repeat.
ONCE: Final = "once"
#: After the name of a metric: the workload demands it only on devices that have it.
OPTIONAL: Final = "?"


def _of_text(text: str, unit: Unit) -> Steps[list[Activity]]:
    if not is_call(text):
        _check_count(text.count(",") + 1)
    activities: list[Activity] = []
    known: dict[str, Activity] = {}  # long profiles repeat some activities
    has_only_numbers = unit is LOAD and _ONLY_NUMBERS.fullmatch(text) is not None
    for position, part in enumerate(_parts(text), 1):
        if part not in known:
            known[part] = (has_only_numbers and _of_numbers(part)) or _of_words(position, part, unit)
        activities.append(known[part])
        if not position % _AT_ONCE:
            yield
    return activities


def _of_words(position: int, text: str, unit: Unit) -> Activity:
    words = [word.strip() for word in text.strip().split(":")]
    if is_once := words[-1] == ONCE:
        words.pop()
    if not 1 <= len(words) <= 4:
        raise ValueError(f"activity {position}: {text.strip()!r} is not {unit.noun}:fluctuation:seconds, as 98:1:0")
    try:
        value = parse_call(words[0], unit.parse) if is_call(words[0]) else unit.parse(words[0])
        fluctuation = unit.parse(words[1]) if len(words) > 1 else 0.0
        seconds = parse_seconds(words[2]) if len(words) > 2 else 0.0
        spread = parse_number(words[3]) if len(words) > 3 else 1.0
    except ValueError as error:
        raise ValueError(f"activity {position}: {error}") from None
    return Activity(value, fluctuation, seconds, spread, is_once)


def _checked(activities: Sequence[Activity], unit: Unit) -> Steps[tuple[Activity, ...]]:
    """Activities as they are given, checked; 0 seconds in the last activity: until stopped.

    A value with its fluctuation must be within 0 to the unit's maximum: the original's server has this rule for loads.
    """
    if not activities:
        raise ValueError("a profile needs at least one activity")
    _check_count(sum(_segments(activity.value) for activity in activities))
    checked = []
    repeats = False
    for position, activity in enumerate(activities, 1):
        if not position % _AT_ONCE:
            yield
        if _is_plain(activity, unit) and not activity.is_once:
            repeats = True
            checked.append(activity)
            continue
        last = position == len(activities)
        reason = _fault(activity, unit, last=last)
        if not reason and activity.is_once and (last or repeats):
            reason = "once is for the first activities of a profile, before those that repeat"
        if reason:
            raise ValueError(f"activity {position}: {reason}")
        repeats = not activity.is_once
        value = activity.value if isinstance(activity.value, Function) else float(activity.value)
        seconds = float(activity.seconds) if activity.seconds else FOREVER
        checked.append(Activity(value, float(activity.fluctuation), seconds, activity.spread, activity.is_once))
    return tuple(checked)


def format_profile(activities: Iterable[Activity], unit: Unit = LOAD) -> str:
    """Activities as :func:`profile_from` reads them, to the last digit."""
    return ",".join(
        f"{format_value(a.value, unit.show)}:{unit.show(a.fluctuation)}:"
        f"{format_number(0.0 if a.seconds >= FOREVER else a.seconds)}"
        f"{f':{format_number(a.spread)}' if a.spread != 1.0 else ''}{f':{ONCE}' if a.is_once else ''}"
        for a in activities
    )


def _check_count(count: int) -> None:
    if count > MAX_ACTIVITIES:
        raise ValueError(f"{count} activities are too many: at most {MAX_ACTIVITIES}")


def _of_numbers(text: str) -> Activity | None:
    """The activity of a text of at most three plain numbers; None for another text."""
    try:
        numbers = [float(word) for word in text.split(":")]
    except ValueError:
        return None
    if len(numbers) > 3:
        return None
    value, fluctuation, seconds = (*numbers, 0.0, 0.0)[:3]
    return Activity(value, fluctuation, seconds)


def _is_plain(activity: Activity, unit: Unit) -> bool:
    """Whether an activity is certainly right, and made of floats: nearly all are, and there may be thousands."""
    value, fluctuation, seconds = activity.value, activity.fluctuation, activity.seconds
    return (
        type(value) is type(fluctuation) is type(seconds) is float
        and 0.0 <= fluctuation <= value
        and value + fluctuation <= unit.most
        and SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS
        and (activity.spread == 1.0 or (unit is LOAD and 1.0 <= activity.spread <= MAX_SPREAD))
    )


def _parts(text: str) -> Iterator[str]:
    """The activities of a text, split at commas outside of brackets."""
    if not is_call(text):
        yield from text.split(",")
        return
    depth = begin = position = 0
    while mark := (_BRACKETS if depth > 0 else _MARKS).search(text, position):
        position = mark.end()
        if mark[0] == "(":
            depth += 1
        elif mark[0] == ")":
            depth -= 1
        else:
            yield text[begin : mark.start()]
            begin = position
    yield text[begin:]


def _segments(value: Value) -> int:
    return len(value.arguments) if isinstance(value, Function) and value.name == "steps" else 1


def _fault(activity: Activity, unit: Unit, *, last: bool) -> str:
    """The fault of one activity; empty if it has none."""
    value, fluctuation = activity.value, activity.fluctuation
    low, high = bounds(value)
    numbers = (low, high, fluctuation, activity.seconds, activity.spread)
    if not (math.isfinite(sum(numbers)) or all(map(math.isfinite, numbers))):
        return "numbers must be finite"
    prefix = f"{value.name}: " if isinstance(value, Function) else ""
    for end in (low, high):
        if not 0 <= end <= unit.most:
            return f"{prefix}{unit.noun} {unit.brief(end)} is not within 0 to {unit.brief(unit.most)}"
    if not 0 <= fluctuation <= low:
        return f"{prefix}fluctuation {unit.brief(fluctuation)} is not within 0 and the {unit.noun} {unit.brief(low)}"
    if high + fluctuation > unit.most:
        return (
            f"{prefix}{unit.noun} {unit.brief(high)} + fluctuation {unit.brief(fluctuation)} is over "
            f"{unit.brief(unit.most)}"
        )
    return _fault_of_length(activity, unit, prefix, last=last)


def _fault_of_length(activity: Activity, unit: Unit, prefix: str, *, last: bool) -> str:
    value, seconds, spread = activity.value, activity.seconds, activity.spread
    if not 0 <= seconds <= LONGEST_SECONDS:
        return f"{seconds:g} seconds is not within 0 to {LONGEST_SECONDS:g}"
    if 0 < seconds < SHORTEST_SECONDS:
        return f"{seconds:g} seconds is less than a microsecond"
    if seconds == 0 and not last:
        return "0 seconds (until stopped) is for the last activity only"
    if seconds == 0 and needs_end(value):
        return f"{prefix}is spread over its activity, which needs seconds"
    if seconds and isinstance(value, Function) and value.name == "daily":
        return "daily: has no end: it is for the last activity, with 0 seconds"
    if not 1 <= spread <= MAX_SPREAD:
        return f"the spread {spread:g} is not within 1 to {MAX_SPREAD:g}"
    if spread > 1 and unit is not LOAD:
        return "a spread is for the activities of the load: activities of metrics run in the same time"
    if spread > 1 and seconds == 0:
        return "what lasts until stopped has no spread"
    return ""


def profile_from(value: object, unit: Unit = LOAD) -> tuple[Activity, ...]:
    """The activities of a text, or of a list of activities.

    A text is ``value:fluctuation:seconds:spread:once,...``; all but the value (seconds as 5m, too) are optional.

    :raises ValueError: with the number of the wrong activity.
    """
    return result_of(profile_steps(value, unit))


def profile_steps(value: object, unit: Unit = LOAD) -> Steps[tuple[Activity, ...]]:
    """The steps of :func:`profile_from`: there may be thousands of activities."""
    if isinstance(value, str):
        activities = yield from _of_text(value, unit)
    elif isinstance(value, list | tuple):
        activities = []
        for position, entry in enumerate(value, 1):
            activities.append(_activity(position, entry, unit))
            if not position % _AT_ONCE:
                yield
    else:
        raise ValueError(f"must be {unit.noun}:fluctuation:seconds, or a list of activities")
    return (yield from _checked(activities, unit))


def uses_from(value: object) -> tuple[MetricUse, ...]:
    """The uses of metrics, from a mapping of their names to profiles; a number is a constant.

    :raises ValueError: with the name of the wrong metric.
    """
    return result_of(uses_steps(value))


def uses_steps(value: object) -> Steps[tuple[MetricUse, ...]]:
    """The steps of :func:`uses_from`."""
    if value is None:
        return ()
    if not isinstance(value, Mapping) or len(value) > MAX_METRICS:
        raise ValueError(f"must be at most {MAX_METRICS} metrics, each with a profile")
    uses: dict[str, MetricUse] = {}
    for name, profile in value.items():
        if not isinstance(name, str):
            raise ValueError(f"{name!r} is no name of a metric")
        use = yield from _use(asked_quantity(name.removesuffix(OPTIONAL)), profile)
        use = replace(use, is_optional=name.endswith(OPTIONAL))
        if use.metric in uses:
            raise ValueError(f"{metric_word(use.metric)} is given twice")
        uses[use.metric] = use
    return tuple(uses.values())


def intensity_steps(value: object, activities: Activities) -> Steps[tuple[Intensity, ...]]:
    """The steps to the intensities of some activities: a number, or ``percent:fluctuation,...`` as a text or as lists.

    Either one for all, or one for each; none where all are 100 %.

    :raises ValueError: with the number of the wrong intensity.
    """
    if value is None or (number := number_of(value)) is not None:
        entries: Sequence[object] = [] if value is None else [number]
    elif isinstance(value, str):
        entries = value.split(",")
    elif isinstance(value, list | tuple) and value:
        entries = value
    else:
        raise ValueError("must be percent, as 45 or 45:5, or a list with one for each activity")
    found: list[Intensity] = []
    for position, entry in enumerate(entries, 1):
        found.append(_intensity(position, entry))
        if not position % _AT_ONCE:
            yield
    if len(found) > 1 and len(found) != len(activities):
        raise ValueError(
            f"has {len(found)} values, and the profile has {len(activities)} activities: give one for all, or one each"
        )
    return () if set(found) <= {Intensity(100.0)} else tuple(found)


def _intensity(position: int, entry: object) -> Intensity:
    if isinstance(entry, str):
        words: Sequence[object] = [LOAD.parse(word) for word in entry.split(":")]
    else:
        words = entry if isinstance(entry, list | tuple) else [entry]
    numbers = [number for word in words if (number := number_of(word)) is not None and math.isfinite(number)]
    if len(numbers) != len(words) or not 1 <= len(numbers) <= len(Intensity._fields):
        raise ValueError(f"value {position}: must be percent, as 45, or percent:fluctuation, as 45:5")
    found = Intensity(*numbers)
    if not 0 < found.percent <= LOAD.most:
        raise ValueError(f"value {position}: {found.percent:g} is not over 0 and at most 100")
    if not 0 <= found.fluctuation <= min(found.percent, LOAD.most - found.percent):
        raise ValueError(f"value {position}: {found.percent:g} +/- {found.fluctuation:g} is not within 0 to 100")
    return found


def format_intensities(intensities: Iterable[Intensity]) -> str:
    """Intensities as :func:`intensity_steps` reads them, to the last digit; empty for none."""
    return ",".join(":".join(map(format_number, each if each.fluctuation else each[:1])) for each in intensities)


def use_word(use: MetricUse) -> str:
    """The name of a metric as :func:`uses_from` reads it."""
    return metric_word(use.metric) + (OPTIONAL if use.is_optional else "")


def use_profile(use: MetricUse) -> str:
    """The profile of a metric as :func:`uses_from` reads it, to the last digit."""
    return format_profile(use.activities, _unit(use.metric, use.is_share, use.is_traffic))


def _use(quantity: str, profile: object) -> Steps[MetricUse]:
    word = metric_word(quantity)
    if number_of(profile) is not None:
        profile = [[profile]]
    is_share = _has(profile, "%")
    if is_share and quantity in WITHOUT_SHARES:
        raise ValueError(f"{word}: there is no maximum of which a share could be requested")
    is_traffic = quantity == AS_TRAFFIC and _has(profile, "B")
    unit = _unit(quantity, is_share, is_traffic)
    try:
        activities = yield from profile_steps(profile, unit)
        values = [activity.value for activity in activities if not isinstance(activity.value, Function)]
        if unit in (BYTES, BYTES_PER_SECOND) and 0 < max(values, default=0) <= SHARE.most:
            most = unit.brief(max(values))
            raise ValueError(f"{most} means bytes: write {most}% for a share of the device's maximum, or {most}GB")
        return MetricUse(quantity, Activities(activities), is_share, is_traffic=is_traffic)
    except ValueError as error:
        raise ValueError(f"{word}: {error}") from None


def _unit(quantity: str, is_share: bool, is_traffic: bool) -> Unit:
    return SHARE if is_share else TRAFFIC if is_traffic else ASKABLE[quantity]


def _has(profile: object, mark: str) -> bool:
    """Whether a profile has the mark of a unit: % for shares of the device's maximum, B for bytes."""
    if isinstance(profile, str):
        return mark in profile
    if isinstance(profile, Mapping):
        return any(_has(item, mark) for item in profile.values())
    return isinstance(profile, list | tuple) and any(_has(item, mark) for item in profile)


def _activity(position: int, entry: object, unit: Unit) -> Activity:
    names = ("load" if unit is LOAD else "value", "fluctuation", "seconds", "spread", ONCE)
    if isinstance(entry, Mapping) and unit is LOAD and ("utilization" in entry or "time" in entry):
        entry = _scheduled(position, entry)
    if isinstance(entry, Mapping):
        unknown = [str(key) for key in entry if key not in names]
        if unknown:
            raise ValueError(f"activity {position}: unknown {unknown[0]!r}: an activity has {', '.join(names)}")
        values = [entry.get(name, default) for name, default in zip(names, _DEFAULTS, strict=True)]
    elif isinstance(entry, list | tuple) and 1 <= len(entry) <= len(names):
        is_once = len(entry) > 1 and entry[-1] == ONCE
        plain = entry[:-1] if is_once else entry
        if len(plain) == len(names):
            raise ValueError(f"activity {position}: what follows the spread can only be {ONCE!r}")
        values = [*plain, *_DEFAULTS[len(plain) : -1], is_once]
    else:
        raise ValueError(f"activity {position}: must be [{', '.join(names)}]")
    try:
        value, fluctuation = _value(values[0], unit), _plain(values[1], unit)
        seconds = parse_seconds(values[2]) if isinstance(values[2], str) else number_of(values[2])
        spread = number_of(values[3])
    except ValueError as error:
        raise ValueError(f"activity {position}: {error}") from None
    if value is None or fluctuation is None or seconds is None or spread is None:
        wrong = names[[value, fluctuation, seconds, spread].index(None)]
        raise ValueError(f"activity {position}: {wrong} must be a number")
    if not isinstance(values[4], bool):
        raise ValueError(f"activity {position}: {ONCE} must be true or false")
    return Activity(value, fluctuation, seconds, spread, values[4])


#: Of the parts of an activity in a list or an object.
_DEFAULTS: Final = (0, 0, 0, 1, False)


def _scheduled(position: int, entry: Mapping[object, object]) -> list[object]:
    """An entry of a schedule of utilization as an activity."""
    unknown = [str(key) for key in entry if key not in ("time", "utilization")]
    if unknown:
        raise ValueError(f"activity {position}: unknown {unknown[0]!r}: an entry has time and utilization")
    if "utilization" not in entry:
        raise ValueError(f"activity {position}: utilization is missing: an entry has time and utilization")
    time = entry.get("time", 0)
    try:
        return [entry["utilization"], 0, parse_duration(time) if isinstance(time, str) else time]
    except ValueError as error:
        raise ValueError(f"activity {position}: time: {error}") from None


def _value(value: object, unit: Unit) -> Value | None:
    """A number, the text of a value, or a function as ``{"ramp": [0, 90]}``."""
    if isinstance(value, str) and is_call(value):
        return parse_call(value, unit.parse)
    if isinstance(value, Mapping) and len(value) == 1:
        ((name, arguments),) = value.items()
        if not isinstance(name, str) or not isinstance(arguments, list | tuple):
            raise ValueError('a function is written as {"ramp": [0, 90]}')
        return made(name, arguments, unit.parse)
    return _plain(value, unit)


def _plain(value: object, unit: Unit) -> float | None:
    if isinstance(value, str) and unit is not LOAD:
        return unit.parse(value)
    return number_of(value)
