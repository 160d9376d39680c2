"""Profiles as requests have them, texts or lists, for plain load and for single metrics. Imports no NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from fakedev.spec.fleet import Activity, MetricUse
from fakedev.spec.metrics_of_work import AS_TRAFFIC, ASKABLE, WITHOUT_SHARES, asked_quantity, metric_word
from fakedev.spec.profiles import checked_profile, format_profile, parse_profile
from fakedev.spec.units import parse_duration
from fakedev.spec.value_functions import Value, is_call, made, parse_call, parse_seconds
from fakedev.spec.value_units import LOAD, SHARE, TRAFFIC, Unit

#: Metrics that one workload may bring.
MAX_METRICS: Final = 64
#: Behind the name of a metric: only where devices have it.
OPTIONAL: Final = "?"


def profile_from(value: object, unit: Unit = LOAD) -> tuple[Activity, ...]:
    """The activities of a text, or of a list of activities.

    :raises ValueError: naming the activity at fault.
    """
    if isinstance(value, str):
        return parse_profile(value, unit)
    if not isinstance(value, list | tuple):
        raise ValueError(f"must be {unit.noun}:fluctuation:seconds, or a list of activities")
    return checked_profile([_activity(position, entry, unit) for position, entry in enumerate(value, 1)], unit)


def uses_from(value: object) -> tuple[MetricUse, ...]:
    """What is asked of metrics: a mapping of their names to profiles; a number is constant.

    :raises ValueError: naming the metric at fault.
    """
    if value is None:
        return ()
    if not isinstance(value, Mapping) or len(value) > MAX_METRICS:
        raise ValueError(f"must be at most {MAX_METRICS} metrics, each with a profile")
    uses: dict[str, MetricUse] = {}
    for name, profile in value.items():
        if not isinstance(name, str):
            raise ValueError(f"{name!r} is no name of a metric")
        use = replace(_use(asked_quantity(name.removesuffix(OPTIONAL)), profile), is_optional=name.endswith(OPTIONAL))
        if use.metric in uses:
            raise ValueError(f"{metric_word(use.metric)} is given twice")
        uses[use.metric] = use
    return tuple(uses.values())


def use_word(use: MetricUse) -> str:
    """The name of a metric as :func:`uses_from` reads it."""
    return metric_word(use.metric) + (OPTIONAL if use.is_optional else "")


def use_profile(use: MetricUse) -> str:
    """The profile of a metric as :func:`uses_from` reads it, to the last digit."""
    return format_profile(use.activities, _unit(use.metric, use.is_share, use.is_traffic))


def _use(quantity: str, profile: object) -> MetricUse:
    word = metric_word(quantity)
    if number_of(profile) is not None:
        profile = [[profile]]
    is_share = _has(profile, "%")
    if is_share and quantity in WITHOUT_SHARES:
        raise ValueError(f"{word}: there is no maximum of which a share could be asked")
    is_traffic = quantity == AS_TRAFFIC and _has(profile, "B")
    try:
        activities = profile_from(profile, _unit(quantity, is_share, is_traffic))
        return MetricUse(quantity, activities, is_share, is_traffic=is_traffic)
    except ValueError as error:
        raise ValueError(f"{word}: {error}") from None


def _unit(quantity: str, is_share: bool, is_traffic: bool) -> Unit:
    return SHARE if is_share else TRAFFIC if is_traffic else ASKABLE[quantity]


def _has(profile: object, mark: str) -> bool:
    """Whether the mark of a unit is in a profile: % of shares of the device's maximum, B of bytes."""
    if isinstance(profile, str):
        return mark in profile
    if isinstance(profile, Mapping):
        return any(_has(each, mark) for each in profile.values())
    return isinstance(profile, list | tuple) and any(_has(each, mark) for each in profile)


def _activity(position: int, entry: object, unit: Unit) -> tuple[Value, float, float]:
    names = ("load" if unit is LOAD else "value", "fluctuation", "seconds")
    if isinstance(entry, Mapping) and unit is LOAD and ("utilization" in entry or "time" in entry):
        entry = _scheduled(position, entry)
    if isinstance(entry, Mapping):
        unknown = [str(key) for key in entry if key not in names]
        if unknown:
            raise ValueError(f"activity {position}: unknown {unknown[0]!r}: an activity has {', '.join(names)}")
        values = [entry.get(name, 0) for name in names]
    elif isinstance(entry, list | tuple) and 1 <= len(entry) <= 3:
        values = [*entry, 0, 0][:3]
    else:
        raise ValueError(f"activity {position}: must be [{', '.join(names)}]")
    try:
        value, fluctuation = _value(values[0], unit), _plain(values[1], unit)
        seconds = parse_seconds(values[2]) if isinstance(values[2], str) else number_of(values[2])
    except ValueError as error:
        raise ValueError(f"activity {position}: {error}") from None
    if value is None or fluctuation is None or seconds is None:
        wrong = names[[value, fluctuation, seconds].index(None)]
        raise ValueError(f"activity {position}: {wrong} must be a number")
    return value, fluctuation, seconds


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


def number_of(value: object) -> float | None:
    """A number as a float; None for anything else (True is no number here, nor is one past a float)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None
