"""The keys of workloads: under ``workloads.base``."""

from __future__ import annotations

from fakedev.config.scalars import Choice, Duration, Integer, Number, Text
from fakedev.config.schema import Key, Section, Type
from fakedev.config.shapes import ListOf, MapOf, OneOf
from fakedev.sim.units import parse_duration, parse_size


def _size(text: str) -> str:
    """A size as it is written, when it is one: the rules know for which metrics it will do."""
    parse_size(text)
    return text


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


def _profile(activity: Section, first: str) -> tuple[Type, ...]:
    """What a profile may be, but for plain numbers and series."""
    values = OneOf((Number(), _FUNCTION, Text("value")))
    entries = OneOf((ListOf(values, words=f"list of {first}, fluctuation, seconds"), activity,
                     Text(f"{first}:fluctuation:seconds")))  # fmt: skip
    return ListOf(entries, 1, words="list of activities"), Text(f"{first}:fluctuation:seconds,...", longest=65_536)


BASE = Section(
    "workloads.base",
    (
        Key(
            "file",
            Text("path"),
            "The original's workload JSON; the other keys win over what it says.",
            default_words="none",
        ),
        Key("name", Text(), "Name of the workload; needed without a file.", default_words="from the file"),
        Key(
            "devices",
            OneOf((ListOf(Text(), 1, words="list of device words"), Text("device words with commas"))),
            "Devices: all, even, odd, card0, dgx-0/3, dgx-[0-3]/*, dgx-0/3/1.",
            default="all",
        ),
        Key(
            "profile",
            OneOf((SERIES, *_profile(ACTIVITY, "load"))),
            "Activities, as load:fluctuation:seconds with commas between them, or as a list; or a recorded series.",
            default_words="from the file",
        ),
        Key(
            "metrics",
            MapOf(
                OneOf((SERIES, Number(0), *_profile(METRIC_ACTIVITY, "value"))),
                words="mapping of metrics to their profiles",
            ),
            "What it asks of metrics beside the load: memory, tensor, fabric-tx and others of run in "
            "protocol-workload.txt; each a profile of its own.",
            default={},
            default_words="none",
        ),
        Key(
            "repeat",
            Integer(0, 2**53),
            "How often the profile runs; 0: for ever.",
            default_words="from the file, else 0",
        ),
        Key(
            "seconds-of",
            Choice(("time", "work")),
            "What the seconds of the profile are: time, or work at the highest clock; a throttled board takes longer.",
            default="time",
        ),
        Key(
            "measured-frequency",
            Number(0, 1e9),
            "Highest clock of the device that it was measured on: times or values are scaled by it; 0: not scaled.",
            default=0.0,
            default_words="0",
            unit="MHz",
        ),
        Key(
            "measured-capability",
            Number(0, 1e9),
            "Capability of the device that it was measured on, likewise.",
            default=0.0,
            default_words="0",
        ),
        Key(
            "kind",
            Text(),
            "Kind of work: compute, tensor, memory, transfer, exchange, encode, decode, render, "
            "or one that a device type adds.",
            default="compute",
        ),
        Key("node", Text(), "The node whose devices are meant by bare names.", default_words="none"),
        Key("pod", Text(), "Pod shown on its devices.", default_words="none"),
        Key("namespace", Text(), "Namespace of the pod.", default_words="none"),
        Key("container", Text(), "Container of the pod.", default_words="none"),
        Key(
            "limits",
            MapOf(OneOf((Number(), Text("size", _size)), "number or size"), words="mapping of metrics to numbers"),
            "Crossing one of these ends the workload; of metrics in bytes also sizes, as 40GiB.",
            default={},
            default_words="none",
        ),
        Key(
            "run-time-limit",
            Duration(none=True),
            "Simulated time after which it is ended as failed; none for no limit.",
            default=0.0,
            default_words="none",
            unit="ms, s, m, h or d",
        ),
        Key(
            "ttl",
            Duration(none=True),
            "Simulated time after which it is ended as done; none for no limit.",
            default=0.0,
            default_words="none",
            unit="ms, s, m, h or d",
        ),
    ),
    doc="Workloads that are present from the first tick. The path of the original's JSON alone is enough.",
    shorthand="file",
)
