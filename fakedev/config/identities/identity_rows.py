"""Families, rows and labels of an identity's file, as the exposition reads them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from fakedev.config.schema.problems import Place, Report
from fakedev.config.schema.schema import nearest_name
from fakedev.config.schema.values import Values
from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, NumberFormat, RowSpec
from fakedev.exposition.labels import Template
from fakedev.sim.links.levels import LINK_QUANTITIES
from fakedev.spec.quantities import quantity_in_file

_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

#: Levels of entities that rows can be of.
LEVELS: Final = (
    "device", "held", "xid", "peer", "part", "unit", "repeated", "whole", "tile", "tiled", "single", "node", "link",
    "port", "switch", "workload",
)  # fmt: skip
#: The links of one number of all devices.
_NUMBERED: Final = re.compile(r"link/\d{1,2}")


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


def check_rows(family: FamilySpec, identity: Identity, place: Place, report: Report) -> None:
    """Reports labels given twice on a line, and rows that would be the same series."""
    seen: dict[tuple[str, frozenset[tuple[str, str]]], list[RowSpec]] = {}
    for row in family.rows:
        names = Counter(label.name for label in (*identity.labels_on(row.level), *row.labels))
        for name, times in names.items():
            if times > 1:
                report.problem(place, f"{family.name}: the label {name!r} is given {times} times on a line: remove one")
        series = (row.level, frozenset((label.name, label.value) for label in row.labels))
        alike = seen.setdefault(series, [])
        if not all(row.excludes(other) for other in alike):
            report.problem(place, f"{family.name}: two rows have the same labels: give them a label that differs")
        alike.append(row)


def read_family(values: Values, quantities: dict[str, Place], report: Report) -> FamilySpec:
    """A family; what is wrong with it is reported.

    :param quantities: gathers the quantities that it names, with their places.
    """
    name = values["name"] or ""
    reported(checked_metric, name, values.place_of("name"), report)
    if sum((bool(values["rows"]), *(values.given(key) for key in ("quantity", "constant", "fact")))) != 1:
        report.problem(values.place, f"{name}: give either quantity, or constant, or fact, or rows")
    rows = tuple(read_row(row, quantities, report) for row in values["rows"])
    if not rows and (values["quantity"] or values["fact"] or values["constant"] is not None):
        rows = (read_row(values, quantities, report),)
    return FamilySpec(
        name=name,
        kind=values["type"] or "gauge",
        help=values["help"] or "",
        number=NumberFormat(values["format"] or "go"),
        rows=rows,
    )


def read_row(
    values: Values, quantities: dict[str, Place], report: Report, usual_level: str = "device"
) -> RowSpec:
    """A row, or the one row of a family in its short form.

    :param quantities: gathers the quantities that it names, with their places.
    :param usual_level: its level when it says nothing else.
    """
    quantity = quantity_in_file(values["quantity"] or "")
    fact = values["fact"]
    if sum((bool(quantity), bool(fact), values["constant"] is not None)) != 1:
        report.problem(values.place, "a row shows either a quantity, or a constant, or a fact")
    reported(Template.parse, fact, values.place_of("fact"), report)
    if values["bits"] and not quantity:
        report.problem(values.place_of("bits"), "bits are those of a quantity")
    if quantity:
        quantities.setdefault(quantity, values.place_of("quantity"))
    plus, where, unless = (_named(values, key, quantities) for key in ("plus", "where", "unless"))
    level = values["level"] or usual_level
    if level not in LEVELS and not _NUMBERED.fullmatch(level):
        report.problem(values.place_of("level"), f"level: {level!r} is none of {', '.join(LEVELS)}")
    per, requires = (quantity_in_file(values[key]) for key in ("per", "requires"))
    for name, key in ((per, "per"), (requires, "requires")):
        if name:
            quantities.setdefault(name, values.place_of(key))
    labels = read_labels(values["labels"], "labels", report)
    constant = 0.0 if values["constant"] is None else float(values["constant"])
    row = RowSpec(
        quantity, values["unit"], labels, level, requires, plus, per, where, unless, constant, fact, values["bits"],
        values["within"],
    )
    _check_linked(row, values.place_of("quantity"), report)
    return row


def _check_linked(row: RowSpec, place: Place, report: Report) -> None:
    """Reports quantities that links and switches have not."""
    known = LINK_QUANTITIES.get(row.state_level, ())
    for name in row.named if known else ():
        if name not in known:
            nearest = nearest_name(name, known)
            hint = f"did you mean {nearest!r}?" if nearest else f"there is {', '.join(known)}"
            report.problem(place, f"the level {row.level} has no quantity {name!r}; {hint}")


def _named(values: Values, key: str, quantities: dict[str, Place]) -> tuple[str, ...]:
    """The quantities of a list."""
    names = tuple(map(quantity_in_file, values[key]))
    for name, node in zip(names, values.items_of(key), strict=False):
        quantities.setdefault(name, node.place)
    return names


def read_labels(entries: Iterable[Values], where: str, report: Report) -> tuple[LabelSpec, ...]:
    """Labels; names that cannot be, and those given twice, are reported."""
    labels = []
    for values in entries:
        name, template = values["name"] or "", values["value"] or ""
        reported(checked_label, name, values.place_of("name"), report)
        reported(Template.parse, template, values.place_of("value"), report)
        texts = tuple(values["texts"].items())
        labels.append(
            LabelSpec(name, template, values["optional"], texts, values["otherwise"], values["leading"])
        )
    for name, times in Counter(label.name for label in labels).items():
        if name and times > 1:
            place = next(values.place for values in entries if values["name"] == name)
            report.problem(place, f"{where}: {name!r} is given {times} times: remove one")
    return tuple(labels)


def reported(check: object, text: str, place: Place, report: Report) -> None:
    """Reports what a check says of a text that was given."""
    if text and callable(check):
        try:
            check(text)
        except ValueError as error:
            report.problem(place, str(error))
