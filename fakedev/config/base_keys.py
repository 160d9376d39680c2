"""The keys of workloads: under ``workloads.base``."""

from __future__ import annotations

from fakedev.config.scalars import Choice, Duration, Integer, Number, Text
from fakedev.config.schema import Key, Section
from fakedev.config.shapes import ListOf, MapOf, OneOf

ACTIVITY = Section(
    "workloads.base.profile",
    (
        Key("load", Number(0, 100), "Mean load.", default=0.0, default_words="0", unit="%"),
        Key(
            "fluctuation", Number(0, 100), "Values stay within load +/- this.", default=0.0, default_words="0", unit="%"
        ),
        Key(
            "seconds",
            Number(0),
            "How long; 0 in the last activity: until stopped.",
            default=0.0,
            default_words="0",
            unit="seconds",
        ),
    ),
    doc="One activity of a profile.",
)

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
            "Devices: all, even, odd, card0, dgx-0/3, dgx-[0-3]/*.",
            default="all",
        ),
        Key(
            "profile",
            OneOf(
                (
                    ListOf(
                        OneOf(
                            (
                                ListOf(Number(), words="list of load, fluctuation, seconds"),
                                ACTIVITY,
                                Text("load:fluctuation:seconds"),
                            )
                        ),
                        1,
                        words="list of activities",
                    ),
                    Text("load:fluctuation:seconds,..."),
                )
            ),
            "Activities, as load:fluctuation:seconds with commas between them, or as a list.",
            default_words="from the file",
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
            "kind",
            Text(),
            "Kind of work: compute, tensor, memory, transfer, or one that a device type adds.",
            default="compute",
        ),
        Key("node", Text(), "The node whose devices are meant by bare names.", default_words="none"),
        Key("pod", Text(), "Pod shown on its devices.", default_words="none"),
        Key("namespace", Text(), "Namespace of the pod.", default_words="none"),
        Key("container", Text(), "Container of the pod.", default_words="none"),
        Key(
            "limits",
            MapOf(Number(), words="mapping of metrics to numbers"),
            "Crossing one of these ends the workload.",
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
