"""The original exporter's JSON: device type, device list, workload; their keys, and what they become.

Names match in any letter case, missing numbers are 0, unknown keys are noted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from fakedev.fleet.settings.loaded import LoadedDevice, LoadedDeviceList
from fakedev.fleet.spec.device_types import DeviceType, Range
from fakedev.fleet.spec.fleet_spec import DeviceSpec
from fakedev.fleet.spec.quantities import quantity_in_file
from fakedev.schema.places import Listing, Node, Place, Report, Table
from fakedev.schema.sections import INVALID, Key, Section, Values
from fakedev.schema.types import Integer, ListOf, MapOf, Number, Text

#: Names to texts, as most of the files have them.
TEXTS: Final = MapOf(Text(), words="mapping of names to texts")

ORIGINAL_DEVICE = Section(
    "original device type",
    (
        Key("DeviceLabels", TEXTS, "labels of every device", default={}),
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
    (Key("DeviceLabels", ListOf(TEXTS, words="list of mappings of labels"), "labels of each device", default=()),),
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


#: Replaces a range that was reported, so that the metric has no further problems.
_UNKNOWN: Final = Range(0.0, 0.0)


def original_kind(node: Node) -> str:
    """Which of the original's files a document is, by its keys; empty when it is none of them."""
    if not isinstance(node, Table):
        return ""
    keys = {key.text.casefold(): value for key, value in node.entries}
    if "metriclimits" in keys:
        return "device type"
    if {"devicelabelmap", "metricmap", "metriclabels"} & keys.keys():
        return "identity"
    if "devicelabels" in keys:
        return "device list" if isinstance(keys["devicelabels"], Listing) else "device type"
    return "workload" if "profile" in keys else ""


def fact_key(name: str) -> str:
    """The fact under which a label of the original's JSON is kept: templates know word characters only."""
    return re.sub(r"\W", "_", name)


def load_original_device(node: Node, report: Report) -> LoadedDevice | None:
    """The device type of the original's JSON: the metrics that the file names, and usage."""
    values = read_original(node, "device type", ORIGINAL_DEVICE, report)
    if values is None:
        return None
    limits = values.nodes.get("MetricLimits")
    if not isinstance(limits, Table) or not limits.entries:
        place = values.place_of("MetricLimits")
        report.problem(place, "MetricLimits names no metric: give it at least one, with Min and Max")
        return None
    ranges: dict[str, Range] = {}
    for key, entry in limits.entries:
        limit = values["MetricLimits"].get(key.text)
        name = quantity_in_file(key.text)
        if limit is None:
            ranges.setdefault(name, _UNKNOWN)
            continue
        try:
            if limit["Min"] > limit["Max"]:
                raise ValueError(f"{key.text}: Min {limit['Min']:g} is over Max {limit['Max']:g}")
            if name in ranges:
                raise ValueError(f"{key.text}: is there twice, under two names")
            ranges[name] = Range(limit["Min"], limit["Max"])
        except ValueError as error:
            ranges.setdefault(name, _UNKNOWN)
            report.problem(entry.place, f"MetricLimits.{error}")
    memory = ranges.get("memory_used_bytes")
    ranges.setdefault("usage_ratio", Range(0.0, 1.0))
    kind = DeviceType(
        name=PurePath(values.place.file).stem,
        ranges=ranges,
        facts=_facts(values["DeviceLabels"]),
        memory_total_bytes=memory.high if memory else 0.0,
        counts_errors=False,
    )
    return LoadedDevice(kind, key_places(values.nodes.get("DeviceLabels")))


def load_original_device_list(node: Node, report: Report) -> LoadedDeviceList | None:
    """The devices of the original's list, in its order."""
    values = read_original(node, "device list", ORIGINAL_DEVICE_LIST, report)
    if values is None:
        return None
    labels: dict[str, Place] = {}
    files: dict[str, Place] = {}
    for entry in values.items_of("DeviceLabels"):
        labels = key_places(entry) | labels
        file = entry.get("file") if isinstance(entry, Table) else None
        text = getattr(file, "text", None)
        if file is not None and text is not None and files.setdefault(text, file.place) is not file.place:
            first = files[text].line
            report.problem(file.place, f"DeviceLabels: the file {text!r} is there twice (first in line {first})")
    devices = tuple(DeviceSpec(index, _facts(facts)) for index, facts in enumerate(values["DeviceLabels"]))
    return LoadedDeviceList(devices, labels)


def load_original_workload(node: Node, report: Report) -> dict[str, tuple[object, Place]] | None:
    """The fields of the original's workload, by the names that workload_from_fields knows, with places."""
    values = read_original(node, "workload", ORIGINAL_WORKLOAD, report)
    if values is None:
        return None
    fields: dict[str, tuple[object, Place]] = {"repeat": (values["Repeat"], values.place_of("Repeat"))}
    fields["name"] = (values["Name"] or PurePath(values.place.file).stem, values.place_of("Name"))
    activities = [[row["Load"], row["Fluctuation"], row["Seconds"]] for row in values["Profile"]]
    fields["profile"] = (activities, values.place_of("Profile"))
    if values["Devices"]:
        fields["devices"] = (list(values["Devices"]), values.place_of("Devices"))
    if values["Limits"]:
        fields["limits"] = (values["Limits"], values.place_of("Limits"))
    return fields


def read_original(node: Node, kind: str, section: Section, report: Report) -> Values | None:
    """The values of a document that should be of one kind, which :func:`original_kind` names; None when reported."""
    found = original_kind(node)
    if found and found != kind:
        report.problem(node.place, f"is the original's {found}, where its {kind} is expected")
        return None
    values: Any = section.read(node, "", report)
    return None if values is INVALID else values


def _facts(labels: Mapping[str, str]) -> dict[str, str]:
    return {fact_key(name): value for name, value in labels.items()}


def key_places(node: Node | None) -> dict[str, Place]:
    """The keys of a mapping with their places; none for other nodes."""
    return {key.text: key.place for key, _ in node.entries} if isinstance(node, Table) else {}
