"""The keys of the original exporter's JSON: names in any letter case, missing numbers 0."""

from __future__ import annotations

from typing import Final

from fakedev.config.schema.schema import Key, Section
from fakedev.config.schema.types import Integer, ListOf, MapOf, Number, Text

_TEXTS: Final = MapOf(Text(), words="mapping of names to texts")

ORIGINAL_DEVICE = Section(
    "original device type",
    (
        Key("DeviceLabels", _TEXTS, "labels of every device", default={}),
        Key(
            "MetricLimits",
            MapOf(
                Section(
                    "metric limits",
                    (Key("Min", Number(), "at load 0", default=0.0), Key("Max", Number(), "at load 100", default=0.0)),
                    any_case=True,
                ),
                words='mapping of metrics to {"Min": ..., "Max": ...}',
            ),
            "the range of each metric",
            default={},
        ),
    ),
    any_case=True,
)

ORIGINAL_DEVICE_LIST = Section(
    "original device list",
    (Key("DeviceLabels", ListOf(_TEXTS, words="list of mappings of labels"), "labels of each device", default=()),),
    any_case=True,
)

ORIGINAL_IDENTITY = Section(
    "original identity",
    (
        Key("DeviceLabelMap", _TEXTS, "device label to its name in the exporter", default={}),
        Key("MetricMap", _TEXTS, "metric to its name in the exporter", default={}),
        Key(
            "MetricLabels", MapOf(_TEXTS, words="mapping of metrics to labels"), "labels of single metrics", default={}
        ),
    ),
    any_case=True,
)

ORIGINAL_WORKLOAD = Section(
    "original workload",
    (
        Key("Name", Text(), "name of the workload", default=""),
        Key("Repeat", Integer(0, 2**53), "how often; 0 for ever", default=0),
        Key(
            "Profile",
            ListOf(
                Section(
                    "activity",
                    (
                        Key("Load", Number(), "percent", default=0.0),
                        Key("Fluctuation", Number(), "percent", default=0.0),
                        Key("Seconds", Number(), "0 for ever", default=0.0),
                    ),
                    any_case=True,
                ),
                words="list of activities",
            ),
            "activities",
            default=(),
        ),
        Key("Devices", ListOf(Text(), words="list of device names"), "devices", default=()),
        Key("Limits", MapOf(Number(), words="mapping of metrics to numbers"), "limits", default={}),
    ),
    any_case=True,
)
