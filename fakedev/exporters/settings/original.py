"""The identity of the original exporter's JSON: its keys, and what they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from pathlib import PurePath

from fakedev.exporters.identity import FamilySpec, Identity, LabelSpec, NumberFormat, RowSpec
from fakedev.exporters.settings.families import check_rows, checked_label, checked_metric
from fakedev.exporters.settings.loaded import LoadedIdentity
from fakedev.fleet.settings.original import TEXTS, fact_key, key_places, read_original
from fakedev.fleet.spec.quantities import KNOWN_QUANTITIES, quantity_in_file
from fakedev.schema.places import Node, Place, Report, entries_of
from fakedev.schema.sections import Key, Section, Values, did_you_mean
from fakedev.schema.types import MapOf

ORIGINAL_IDENTITY = Section(
    "original identity",
    (
        Key("DeviceLabelMap", TEXTS, "device label to its name in the exporter", default={}),
        Key("MetricMap", TEXTS, "metric to its name in the exporter", default={}),
        Key(
            "MetricLabels", MapOf(TEXTS, words="mapping of metrics to labels"), "labels of single metrics", default={}
        ),
    ),
    any_case=True,
)

#: A family of the catalog by its name, for TYPE and HELP.
FindFamily = Callable[[str], FamilySpec | None]


def load_original_identity(node: Node, report: Report, find_family: FindFamily) -> LoadedIdentity | None:
    """The identity of the original's JSON, with TYPE and HELP from the catalog where it has the family."""
    values = read_original(node, "identity", ORIGINAL_IDENTITY, report)
    if values is None:
        return None
    label_places = key_places(values.nodes.get("DeviceLabelMap"))
    metric_places = key_places(values.nodes.get("MetricMap"))
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
    for key, node in entries_of(values.nodes.get("MetricLabels")):
        if key.text not in metrics:
            hint = did_you_mean(key.text, metrics) or f"add it to MetricMap ({', '.join(metrics) or 'empty'})"
            report.problem(key.place, f"MetricLabels.{key.text}: the metric is not in MetricMap; {hint}")
        places = key_places(node)
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
