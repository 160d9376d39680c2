"""An identity's YAML to the Identity that the exposition reads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from fakedev.config.formats import IDENTITY
from fakedev.config.models import LoadedIdentity
from fakedev.config.nodes import Node, Table
from fakedev.config.problems import Place, Report
from fakedev.config.schema import INVALID
from fakedev.config.values import Values
from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, Layout, NumberFormat, RowSpec, SharedDevices
from fakedev.exposition.labels import Template
from fakedev.sim.quantities import quantity_in_file

_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_LEVELS: Final = ("device", "node", "part", "link", "workload")


#: Another identity by its name; None when there is none or it is wrong, which was reported.
FindIdentity = Callable[[str, Place], LoadedIdentity | None]


def load_identity(node: Node, report: Report, find: FindIdentity) -> LoadedIdentity | None:
    """The identity of a document; None when it cannot be used (the problems are reported).

    :param find: finds the identity that it is based on.
    """
    if not isinstance(node, Table):
        report.problem(node.place, "an identity is a mapping with name, labels and families")
        return None
    values = IDENTITY.read(node, "", report)
    if values is INVALID:
        return None
    base = find(values["based-on"], values.place_of("based-on")) if values["based-on"] else None
    if values["based-on"] and base is None:
        return None
    if base is None and not values.given("families"):
        report.problem(values.place, "families is missing: give the metric families, or based-on: another identity")
    labels = _labels(values["labels"], "labels", report)
    quantities: dict[str, Place] = {}
    families = tuple(_family(family, quantities, report) for family in values["families"] or ())
    for name, times in Counter(family.name for family in families).items():
        if times > 1:
            place = values.place_of("families")
            report.problem(place, f"families: {name!r} is there {times} times: put its rows into one")
    identity = Identity(
        name=values["name"] or "",
        version=values["version"],
        families=families,
        labels=labels,
        content_type=values["content-type"],
        layout=Layout(values["layout"]),
        sort_labels=values["sort-labels"],
        leading_labels=values["leading-labels"],
        timestamps=values["timestamps"],
        openmetrics=values["openmetrics"],
        shared_devices=SharedDevices(values["shared-devices"]),
        not_covered=values["not-covered"],
    )
    if base is not None:
        identity = _based_on(base.identity, identity, values)
        quantities = {**base.quantity_places, **quantities}
    places = {family["name"]: family.place for family in values["families"]}
    for family in identity.families:
        check_rows(family, identity.labels, places.get(family.name, values.place), report)
    if identity.leading_labels > len(identity.labels):
        place = values.place_of("leading-labels")
        report.problem(place, f"leading-labels: there are only {len(identity.labels)} labels")
    _check_content_type(identity.content_type, values.place_of("content-type"), report)
    return LoadedIdentity(identity, values.place, quantity_places=quantities)


def _based_on(base: Identity, own: Identity, values: Values) -> Identity:
    """An identity with what was written of its own, and the rest of another."""
    attributes = {name: name.replace("-", "_") for name in values.nodes}
    written = {each: getattr(own, each) for each in attributes.values() if hasattr(own, each)}
    return replace(base, version="", **written)


def checked_metric(name: str) -> str:
    """A family's name.

    :raises ValueError: for one that Prometheus would not take.
    """
    if not _METRIC.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is no metric name: letters, digits, _ and : only, no digit first")
    return name


def checked_label(name: str) -> str:
    """A label's name.

    :raises ValueError: for one that Prometheus would not take.
    """
    if not _LABEL.fullmatch(name) or name.startswith("__"):
        raise ValueError(f"{name[:80]!r} is no label name: letters, digits and _ only, no digit and no __ first")
    return name


def check_rows(family: FamilySpec, labels: Sequence[LabelSpec], place: Place, report: Report) -> None:
    """Reports labels given twice on a line, and rows that would be the same series."""
    seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
    for row in family.rows:
        names = Counter(label.name for label in (*labels, *row.labels))
        for name, times in names.items():
            if times > 1:
                report.problem(place, f"{family.name}: the label {name!r} is given {times} times on a line: remove one")
        series = (row.level, frozenset((label.name, label.value) for label in row.labels))
        if series in seen:
            report.problem(place, f"{family.name}: two rows have the same labels: give them a label that differs")
        seen.add(series)


def _family(values: Values, quantities: dict[str, Place], report: Report) -> FamilySpec:
    name = values["name"] or ""
    _reported(checked_metric, name, values.place_of("name"), report)
    if bool(values["rows"]) == values.given("quantity"):
        report.problem(values.place, f"{name}: give either quantity or rows")
    rows = tuple(_row(row, quantities, report) for row in values["rows"])
    if not rows and values["quantity"]:
        rows = (_row(values, quantities, report),)
    return FamilySpec(
        name=name,
        kind=values["type"] or "gauge",
        help=values["help"] or "",
        number=NumberFormat(values["format"] or "go"),
        rows=rows,
    )


def _row(values: Values, quantities: dict[str, Place], report: Report) -> RowSpec:
    quantity = quantity_in_file(values["quantity"] or "")
    quantities.setdefault(quantity, values.place_of("quantity"))
    plus, where, unless = (_named(values, key, quantities) for key in ("plus", "where", "unless"))
    level = values.get("level", "device")
    if level not in _LEVELS:
        report.problem(values.place_of("level"), f"level: {level!r} is none of {', '.join(_LEVELS)}")
    per, requires = (quantity_in_file(values[key]) for key in ("per", "requires"))
    for name, key in ((per, "per"), (requires, "requires")):
        if name:
            quantities.setdefault(name, values.place_of(key))
    labels = _labels(values["labels"], "labels", report)
    return RowSpec(quantity, values["unit"], labels, level, requires, plus, per, where, unless)


def _named(values: Values, key: str, quantities: dict[str, Place]) -> tuple[str, ...]:
    """The quantities of a list."""
    names = tuple(map(quantity_in_file, values[key]))
    for name, node in zip(names, values.items_of(key), strict=False):
        quantities.setdefault(name, node.place)
    return names


def _labels(entries: Iterable[Values], where: str, report: Report) -> tuple[LabelSpec, ...]:
    labels = []
    for values in entries:
        name, template = values["name"] or "", values["value"] or ""
        _reported(checked_label, name, values.place_of("name"), report)
        _reported(Template.parse, template, values.place_of("value"), report)
        texts = tuple(values["texts"].items())
        labels.append(LabelSpec(name, template, values["optional"], texts, values["otherwise"]))
    for name, times in Counter(label.name for label in labels).items():
        if name and times > 1:
            place = next(values.place for values in entries if values["name"] == name)
            report.problem(place, f"{where}: {name!r} is given {times} times: remove one")
    return tuple(labels)


def _reported(check: object, text: str, place: Place, report: Report) -> None:
    """Reports what a check says of a text that was given."""
    if text and callable(check):
        try:
            check(text)
        except ValueError as error:
            report.problem(place, str(error))


def _check_content_type(text: str, place: Place, report: Report) -> None:
    if not re.fullmatch(r"[ -~]+/[ -~]+", text):
        report.problem(place, f"content-type: {text[:80]!r} is no Content-Type, as text/plain; version=0.0.4")
