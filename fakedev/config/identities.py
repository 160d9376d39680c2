"""An identity's YAML to the Identity that the exposition reads."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from fakedev.config.counters import FieldTable, read_counters
from fakedev.config.formats import IDENTITY
from fakedev.config.models import LoadedIdentity, Making, Quirk
from fakedev.config.nodes import Node, Table
from fakedev.config.problems import Place, Report
from fakedev.config.schema import INVALID, nearest_name
from fakedev.config.values import Values
from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, Layout, NumberFormat, RowSpec, SharedDevices
from fakedev.exposition.labels import Template
from fakedev.sim.quantities import quantity_in_file

_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_LEVELS: Final = ("device", "node", "part", "link", "workload")


class Library(Protocol):
    """What identities are made of; None when there is none or it is wrong, which was reported."""

    def identity(self, name: str, place: Place) -> LoadedIdentity | None:
        """Another identity by its name."""

    def text(self, path: str, place: Place, what: str) -> tuple[str, str] | None:
        """The text of a file, and its name for people."""

    def field_table(self, name: str, place: Place) -> FieldTable | None:
        """The fields that counters may name."""


def load_identity(node: Node, report: Report, library: Library) -> LoadedIdentity | None:
    """The identity of a document; None when it cannot be used (the problems are reported).

    :param library: has the identity that it is based on, and its counters.
    """
    if not isinstance(node, Table):
        report.problem(node.place, "an identity is a mapping with name, labels and families")
        return None
    values = IDENTITY.read(node, "", report)
    if values is INVALID:
        return None
    base = library.identity(values["based-on"], values.place_of("based-on")) if values["based-on"] else None
    if values["based-on"] and base is None:
        return None
    if base is None and not values.given("families") and not values["counters"]:
        report.problem(
            values.place, "families is missing: give the metric families, or counters, or based-on: another identity"
        )
    quantities: dict[str, Place] = {}
    making = _making(values, base.making if base else Making())
    shown = _counters(values, making, library, report)
    families = _families(values["families"], "families", quantities, report)
    also = _families(values["also"], "also", quantities, report)
    identity = Identity(
        name=values["name"] or "",
        version=values["version"],
        families=families,
        labels=_labels(values["labels"], "labels", report),
        content_type=values["content-type"],
        layout=Layout(values["layout"]),
        sort_labels=values["sort-labels"],
        leading_labels=values["leading-labels"],
        timestamps=values["timestamps"],
        openmetrics=values["openmetrics"],
        shared_devices=SharedDevices(values["shared-devices"]),
        hold_seconds=values["hold"],
        health=values["health"],
        not_covered=values["not-covered"],
    )
    if base is not None:
        identity = _based_on(base.identity, identity, values)
        quantities = {**base.quantity_places, **quantities}
    labels_of_counters = base.counter_labels if base else ()
    if shown is not None:
        identity = _with_labels(identity, () if values.given("labels") else labels_of_counters, shown)
        labels_of_counters = tuple(label.name for label in shown.labels)
        identity = replace(identity, families=shown.families)
        quantities |= shown.quantity_places
    elif values.given("labels"):
        labels_of_counters = ()
    identity = replace(identity, families=_arranged(identity.families, also, values, making, library, report))
    known = _quirks(values, base, report)
    for name, asked in zip(values["quirks"], values.items_of("quirks"), strict=False):
        quirk = next((each for each in known if each.name == name), None)
        if quirk is None:
            report.problem(asked.place, _no_quirk(name, known))
        else:
            identity = quirk.shown_by(identity)
    places = {family["name"]: family.place for family in (*values["families"], *values["also"])}
    for family in identity.families:
        check_rows(family, identity.labels, places.get(family.name, values.place), report)
    if identity.leading_labels > len(identity.labels):
        place = values.place_of("leading-labels")
        report.problem(place, f"leading-labels: there are only {len(identity.labels)} labels")
    _check_content_type(identity.content_type, values.place_of("content-type"), report)
    return LoadedIdentity(
        identity, values.place, quantity_places=quantities, making=making, counter_labels=labels_of_counters,
        quirks=known,
    )  # fmt: skip


def _quirks(values: Values, base: LoadedIdentity | None, report: Report) -> tuple[Quirk, ...]:
    """The quirks that can be asked for: those that are written, and those of the base."""
    written = {
        each["name"]: Quirk(
            each["name"], each["issue"] or "", each["doc"] or "", _labels(each["labels"], "labels", report),
            each["rename-labels"], each["without-labels"],
        )
        for each in values["known-quirks"]
    }  # fmt: skip
    of_base = {quirk.name: quirk for quirk in (base.quirks if base else ())}
    return tuple((of_base | written).values())


def _no_quirk(name: str, known: Sequence[Quirk]) -> str:
    names = [quirk.name for quirk in known]
    nearest = nearest_name(name, names)
    hint = f"did you mean {nearest!r}?" if nearest else f"there is {', '.join(names) or 'none'}"
    return f"quirks: no quirk {name!r} is known of this identity; {hint}"


def _making(values: Values, base: Making) -> Making:
    """How the families are made: as the base does, but for what is written."""
    written = {name: values[name] for name in ("order", "fields") if values.given(name)}
    if values.given("numbers") and values["numbers"] is not None:
        written["numbers"] = NumberFormat(values["numbers"])
    return replace(base, **written)


def _families(
    entries: Iterable[Values], where: str, quantities: dict[str, Place], report: Report
) -> tuple[FamilySpec, ...]:
    """Families as written; a name that is there twice is reported."""
    families = tuple(_family(family, quantities, report) for family in entries)
    for name, times in Counter(family.name for family in families).items():
        if times > 1:
            place = next(values.place for values in entries if values["name"] == name)
            report.problem(place, f"{where}: {name!r} is there {times} times: put its rows into one")
    return families


@dataclass(frozen=True)
class _Shown:
    """What counters show."""

    families: tuple[FamilySpec, ...]
    labels: tuple[LabelSpec, ...]
    quantity_places: dict[str, Place]


def _counters(values: Values, making: Making, library: Library, report: Report) -> _Shown | None:
    """The families and labels of an identity's counters; None without, or when they are wrong."""
    given = values["counters"]
    if not given:
        return None
    place = values.place_of("counters")
    if values.given("families"):
        report.problem(place, "counters stand in the place of families: give one of the two")
    table = library.field_table(making.fields, values.place_of("fields"))
    if "\n" in given:
        # The first row is on the line after the bar.
        text, place = given, replace(place, line=place.line + 1)
    else:
        found = library.text(given, place, "the counters file")
        if found is None:
            return None
        text, place = found[0], Place(found[1], 1)
    if table is None:
        return None
    quantities: dict[str, Place] = {}
    families, labels = [], []
    for counter in read_counters(text, place, table, report):
        if counter.kind == "label":
            labels.append(LabelSpec(counter.name, counter.shows["label"]))
            continue
        row = _row(counter.shows, {}, report)
        for name in row.needed:
            quantities.setdefault(name, counter.place)
        number = NumberFormat(counter.shows["format"])
        families.append(FamilySpec(counter.name, counter.kind, counter.help, number, (row,)))
    if not families and not report.sorted_problems():
        report.problem(place, "the counters have no gauge and no counter")
    return _Shown(tuple(families), tuple(sorted(labels, key=lambda label: label.name)), quantities)


def _with_labels(identity: Identity, others: Sequence[str], shown: _Shown) -> Identity:
    """An identity with the labels of its counters after its leading ones, in place of others."""
    leading = identity.leading_labels
    kept = [label for label in identity.labels[:leading] if label.name not in others]
    rest = [label for label in identity.labels[leading:] if label.name not in others]
    labels = (*kept, *shown.labels, *rest)
    return replace(identity, labels=labels, leading_labels=len(kept) + len(shown.labels))


def _arranged(
    families: tuple[FamilySpec, ...],
    also: tuple[FamilySpec, ...],
    values: Values,
    making: Making,
    library: Library,
    report: Report,
) -> tuple[FamilySpec, ...]:
    """Families with what is added, without what is left out, in their order and with their numbers and names."""
    by_name = {family.name: family for family in families}
    for name, node in zip(values["without"], values.items_of("without"), strict=False):
        if name not in by_name:
            nearest = nearest_name(name, by_name)
            hint = f"; did you mean {nearest!r}?" if nearest else ""
            report.problem(node.place, f"without: there is no family {name!r}{hint}")
    by_name |= {family.name: family for family in also}
    kept = [family for name, family in by_name.items() if name not in values["without"]]
    if making.order == "name":
        kept.sort(key=lambda family: family.name)
    elif making.order == "number":
        table = library.field_table(making.fields, values.place_of("fields"))
        fields = table.fields if table else {}
        kept.sort(key=lambda family: fields[family.name]["number"] if family.name in fields else math.inf)
    if making.numbers is not None:
        kept = [replace(family, number=_numbers(family.number, making.numbers)) for family in kept]
    if values["prefix"]:
        _reported(checked_metric, values["prefix"], values.place_of("prefix"), report)
        kept = [replace(family, name=values["prefix"] + family.name) for family in kept]
    return tuple(kept)


def _numbers(given: NumberFormat, wanted: NumberFormat) -> NumberFormat:
    """How numbers are written that a family writes in one way and an identity in another."""
    if wanted is NumberFormat.GO:
        return {NumberFormat.INT: NumberFormat.GO_WHOLE, NumberFormat.FIXED6: NumberFormat.GO_FIXED6}.get(given, wanted)
    return wanted


def _based_on(base: Identity, own: Identity, values: Values) -> Identity:
    """An identity with what was written of its own, and the rest of another."""
    attributes = {name: name.replace("-", "_") for name in values.nodes} | (
        {"hold": "hold_seconds"} if values.given("hold") else {}
    )
    written = {each: getattr(own, each) for each in attributes.values() if hasattr(own, each)}
    return replace(base, **({"version": ""} | written))


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
    if sum((bool(values["rows"]), values.given("quantity"), values.given("constant"))) != 1:
        report.problem(values.place, f"{name}: give either quantity, or constant, or rows")
    rows = tuple(_row(row, quantities, report) for row in values["rows"])
    if not rows and (values["quantity"] or values["constant"] is not None):
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
    if bool(quantity) == (values["constant"] is not None):
        report.problem(values.place, "a row shows either a quantity or a constant")
    if quantity:
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
    constant = 0.0 if values["constant"] is None else float(values["constant"])
    return RowSpec(quantity, values["unit"], labels, level, requires, plus, per, where, unless, constant)


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
