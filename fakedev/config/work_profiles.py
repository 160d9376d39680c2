"""The keys of profiles: of workloads, of single metrics, and of schedules of utilization."""

from __future__ import annotations

from fakedev.config.schema.schema import Key, Section, Type
from fakedev.config.schema.shapes import ListOf, MapOf, OneOf
from fakedev.config.schema.types import Choice, Integer, Number, Text
from fakedev.spec.units import parse_duration

_FUNCTION = MapOf(ListOf(OneOf((Number(), Text()))), words="mapping of a value function to its values")
_SECONDS = Key(
    "seconds",
    OneOf((Number(0), Text("duration", parse_duration))),
    "How long, in seconds or as 90s or 5m; 0 in the last activity: until stopped.",
    default=0.0,
    default_words="0",
)

ACTIVITY = Section(
    "workloads.base.profile",
    (
        Key(
            "load",
            OneOf((Number(0, 100), _FUNCTION, Text("value function"))),
            "Mean load, or a value function, as ramp(0,90) or {ramp: [0, 90]}.",
            default=0.0,
            default_words="0",
            unit="%",
        ),
        Key(
            "fluctuation", Number(0, 100), "Values stay within load +/- this.", default=0.0, default_words="0", unit="%"
        ),
        _SECONDS,
    ),
    doc="One activity of a profile.",
)

METRIC_ACTIVITY = Section(
    "workloads.base.metrics",
    (
        Key(
            "value",
            OneOf((Number(0), _FUNCTION, Text("size, share or value function"))),
            "Mean value, as 40GiB or 50%, or a value function.",
            default=0.0,
            default_words="0",
        ),
        Key(
            "fluctuation",
            OneOf((Number(0), Text("size or share"))),
            "Values stay within value +/- this.",
            default=0.0,
            default_words="0",
        ),
        _SECONDS,
    ),
    doc="One activity of a metric.",
)

SERIES = Section(
    "workloads.base.series",
    (
        Key(
            "csv",
            Text("path"),
            "A file whose first line is time,value. Times are seconds, or durations, and go up.",
            required=True,
        ),
        Key(
            "join",
            Choice(("hold", "linear")),
            "hold: a value lasts until the next time, the last one as long as the one before it; linear: straight "
            "lines from value to value, up to the last time.",
            default="hold",
        ),
    ),
    doc="A recorded series, in the place of a profile.",
)


SCHEDULED = Section(
    "workloads.base.profile.schedule",
    (
        Key(
            "time",
            OneOf((Number(0), Text("duration", parse_duration))),
            "How long, in seconds or as 1h or 90s; 0 in the last entry: until stopped.",
            default=0.0,
            default_words="0",
        ),
        Key("utilization", Number(0, 100), "Mean load.", required=True, unit="%"),
    ),
    doc="One entry of a schedule of utilization; such entries may also be a profile by themselves.",
    mark="utilization",
)

#: How often a profile runs.
REPEAT = Integer(0, 2**53)

SCHEDULE = Section(
    "workloads.base.schedule",
    (
        Key("schedule", ListOf(SCHEDULED, 1, words="list of entries"), "What comes after what.", required=True),
        Key(
            "repeat",
            REPEAT,
            "How often; 0: for ever. The workload's own repeat wins.",
            default_words="the workload's repeat",
        ),
    ),
    doc="A schedule of utilization, in the place of a profile.",
    mark="schedule",
)


def profile_types(activities: tuple[Section, ...], first: str) -> tuple[Type, ...]:
    """What a profile may be, but for plain numbers, series and schedules.

    :param activities: what an entry of it may be, if it is a mapping.
    :param first: what its values are.
    """
    values = OneOf((Number(), _FUNCTION, Text("value")))
    triple = ListOf(values, words=f"list of {first}, fluctuation, seconds")
    entries = OneOf((triple, *activities, Text(f"{first}:fluctuation:seconds")))
    return ListOf(entries, 1, words="list of activities"), Text(f"{first}:fluctuation:seconds,...", longest=65_536)
