"""The keys of workloads: under ``workloads.base``."""

from __future__ import annotations

from fakedev.config.fault_keys import BROUGHT
from fakedev.config.schema.schema import Key, Section
from fakedev.config.schema.shapes import ListOf, MapOf, OneOf
from fakedev.config.schema.types import Choice, Duration, Number, Text
from fakedev.config.work_profiles import ACTIVITY, METRIC_ACTIVITY, REPEAT, SCHEDULE, SCHEDULED, SERIES, profile_types
from fakedev.spec.units import parse_size


def _size(text: str) -> str:
    """A size as it is written, when it is one: the rules know for which metrics it will do."""
    parse_size(text)
    return text


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
            OneOf((SCHEDULE, SERIES, *profile_types((SCHEDULED, ACTIVITY), "load"))),
            "Activities, as load:fluctuation:seconds with commas between them, or as a list; a recorded series; a "
            "schedule of utilization; or a profile by name (doc/simulation.md).",
            default_words="from the file",
        ),
        Key(
            "metrics",
            MapOf(
                OneOf((SERIES, Number(0), *profile_types((METRIC_ACTIVITY,), "value"))),
                words="mapping of metrics to their profiles",
            ),
            "What it asks of metrics beside the load: memory, tensor, fabric-tx and others of run in "
            "protocol-workload.txt; each a profile of its own.",
            default={},
            default_words="none",
        ),
        Key(
            "repeat",
            REPEAT,
            "How often the profile runs; 0: for ever.",
            default_words="from the file or schedule, else 0",
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
            "faults",
            ListOf(BROUGHT, words="list of faults"),
            "What goes wrong on its devices while it runs.",
            default_words="those of a profile by name",
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
