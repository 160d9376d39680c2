"""The original exporter's JSON: device type, device list, identity, workload; their keys, and what they become.

Names match in any letter case, missing numbers are 0, unknown keys are noted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from operator import itemgetter
from pathlib import PurePath
from typing import Any, Final

from fakedev.config.identities.families import check_rows, checked_label, checked_metric
from fakedev.config.models import LoadedDevice, LoadedDeviceList, LoadedIdentity
from fakedev.config.schema.nodes import Listing, Node, Place, Report, Table
from fakedev.config.schema.schema import INVALID, Key, Section, Values, did_you_mean
from fakedev.config.schema.types import Integer, ListOf, MapOf, Number, Text
from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, NumberFormat, RowSpec
from fakedev.spec.device_types import DeviceType, Range
from fakedev.spec.fleet import DeviceSpec
from fakedev.spec.quantities import KNOWN_QUANTITIES, quantity_in_file

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


#: A family of the catalog by its name, for TYPE and HELP.
FindFamily = Callable[[str], FamilySpec | None]

_KINDS: Final[Mapping[str, Section]] = {
    "device type": ORIGINAL_DEVICE,
    "device list": ORIGINAL_DEVICE_LIST,
    "identity": ORIGINAL_IDENTITY,
    "workload": ORIGINAL_WORKLOAD,
}

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
    values = _read(node, "device type", report)
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
    return LoadedDevice(kind, _key_places(values.nodes.get("DeviceLabels")))


def load_original_device_list(node: Node, report: Report) -> LoadedDeviceList | None:
    """The devices of the original's list, in its order."""
    values = _read(node, "device list", report)
    if values is None:
        return None
    labels: dict[str, Place] = {}
    files: dict[str, Place] = {}
    for entry in values.items_of("DeviceLabels"):
        labels = _key_places(entry) | labels
        file = entry.get("file") if isinstance(entry, Table) else None
        text = getattr(file, "text", None)
        if file is not None and text is not None and files.setdefault(text, file.place) is not file.place:
            first = files[text].line
            report.problem(file.place, f"DeviceLabels: the file {text!r} is there twice (first in line {first})")
    devices = tuple(DeviceSpec(index, _facts(facts)) for index, facts in enumerate(values["DeviceLabels"]))
    return LoadedDeviceList(devices, labels)


def load_original_identity(node: Node, report: Report, find_family: FindFamily) -> LoadedIdentity | None:
    """The identity of the original's JSON, with TYPE and HELP from the catalog where it has the family."""
    values = _read(node, "identity", report)
    if values is None:
        return None
    label_places = _key_places(values.nodes.get("DeviceLabelMap"))
    metric_places = _key_places(values.nodes.get("MetricMap"))
    if not metric_places:
        report.problem(values.place_of("MetricMap"), "MetricMap names no metric: give it at least one")
    label_map: Mapping[str, str] = values["DeviceLabelMap"]
    labels = _labels(
        [(mapped or name, f"{{{fact_key(name)}}}", label_places[name]) for name, mapped in label_map.items()],
        report,
        optional=True,
    )
    extra = _metric_labels(values, metric_places, report)
    rows: dict[str, list[RowSpec]] = {}
    for metric, mapped in values["MetricMap"].items():
        family = mapped or metric
        report.tried(metric_places[metric], f"MetricMap.{metric}: ", checked_metric, family)
        rows.setdefault(family, []).append(RowSpec(quantity_in_file(metric), labels=extra.get(metric, ())))
    families = tuple(_family(name, tuple(found), find_family(name)) for name, found in rows.items())
    identity = Identity(name=PurePath(values.place.file).stem, version="", families=families, labels=labels)
    for family in families:
        check_rows(family, identity, values.place_of("MetricMap"), report)
    quantities = {quantity_in_file(metric): place for metric, place in metric_places.items()}
    facts = {fact_key(name): place for name, place in label_places.items()}
    return LoadedIdentity(identity, True, facts, quantities)


def load_original_workload(node: Node, report: Report) -> dict[str, tuple[object, Place]] | None:
    """The fields of the original's workload, by the names that workload_from_fields knows, with places."""
    values = _read(node, "workload", report)
    if values is None:
        return None
    fields: dict[str, tuple[object, Place]] = {"repeat": (values["Repeat"], values.place_of("Repeat"))}
    fields["name"] = (values["Name"] or PurePath(values.place.file).stem, values.place_of("Name"))
    activities = [[each["Load"], each["Fluctuation"], each["Seconds"]] for each in values["Profile"]]
    fields["profile"] = (activities, values.place_of("Profile"))
    if values["Devices"]:
        fields["devices"] = (list(values["Devices"]), values.place_of("Devices"))
    if values["Limits"]:
        fields["limits"] = (values["Limits"], values.place_of("Limits"))
    return fields


def _read(node: Node, kind: str, report: Report) -> Values | None:
    """The values of a document that should be of one kind."""
    found = original_kind(node)
    if found and found != kind:
        report.problem(node.place, f"is the original's {found}, where its {kind} is expected")
        return None
    values: Any = _KINDS[kind].read(node, "", report)
    return None if values is INVALID else values


def _facts(labels: Mapping[str, str]) -> dict[str, str]:
    return {fact_key(name): value for name, value in labels.items()}


def _key_places(node: Node | None) -> dict[str, Place]:
    return {key.text: key.place for key, _ in node.entries} if isinstance(node, Table) else {}


def _labels(entries: list[tuple[str, str, Place]], report: Report, *, optional: bool) -> tuple[LabelSpec, ...]:
    """Label specifications of (name, template, place), sorted by name; names are checked."""
    names: dict[str, None] = {}
    for name, _, place in entries:
        try:
            checked_label(name)
            if name in names:
                raise ValueError(f"two labels are mapped to {name!r}: give them names that differ")
        except ValueError as error:
            report.problem(place, str(error))
        names.setdefault(name)
    return tuple(LabelSpec(name, template, optional) for name, template, _ in sorted(entries, key=itemgetter(0)))


def _metric_labels(values: Values, metrics: Mapping[str, Place], report: Report) -> dict[str, tuple[LabelSpec, ...]]:
    result = {}
    table = values.nodes.get("MetricLabels")
    for key, node in table.entries if isinstance(table, Table) else ():
        if key.text not in metrics:
            hint = did_you_mean(key.text, metrics) or f"add it to MetricMap ({', '.join(metrics) or 'empty'})"
            report.problem(key.place, f"MetricLabels.{key.text}: the metric is not in MetricMap; {hint}")
        places = _key_places(node)
        texts = values["MetricLabels"].get(key.text, {})
        for name, text in texts.items():
            if "{" in text or "}" in text:
                where = f"MetricLabels.{key.text}.{name}"
                report.problem(places[name], f"{where}: a brace cannot be shown in a label: remove it")
        result[key.text] = _labels([(name, text, places[name]) for name, text in texts.items()], report, optional=False)
    return result


def _family(name: str, rows: tuple[RowSpec, ...], known: FamilySpec | None) -> FamilySpec:
    if known is not None:
        return FamilySpec(name, known.kind, known.help, NumberFormat.GO, rows)
    quantity = rows[0].quantity
    description = KNOWN_QUANTITIES.get(quantity, f"{quantity} of the device")
    kind = "counter" if name.endswith("_total") else "gauge"
    return FamilySpec(name, kind, description[:1].upper() + description[1:], NumberFormat.GO, rows)
