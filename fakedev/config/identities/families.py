"""Which families an identity has: those that are written, those of its counters, those of another; in which order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from fakedev.config.identities.counters import FieldTable, read_counters
from fakedev.config.identities.identity_rows import checked_metric, read_family, read_row, reported
from fakedev.config.models import LoadedIdentity, Making
from fakedev.config.schema.problems import Place, Report
from fakedev.config.schema.schema import nearest_name
from fakedev.config.schema.values import Values
from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, NumberFormat


class Library(Protocol):
    """What identities are made of; None when there is none or it is wrong, which was reported."""

    def identity(self, name: str, place: Place) -> LoadedIdentity | None:
        """Another identity by its name."""

    def text(self, path: str, place: Place, what: str) -> tuple[str, str] | None:
        """The text of a file, and its name for people."""

    def field_table(self, name: str, place: Place) -> FieldTable | None:
        """The fields that counters may name."""


_AS_GO: Final = {
    NumberFormat.INT: NumberFormat.GO_WHOLE,
    NumberFormat.FIXED6: NumberFormat.GO_FIXED6,
    **{each: each for each in (NumberFormat.GO_WHOLE, NumberFormat.GO_FIXED2, NumberFormat.GO_FIXED6)},
}


def making_of(values: Values, base: Making) -> Making:
    """How the families are made: as the base does, but for what is written."""
    written = {name: values[name] for name in ("order", "fields") if values.given(name)}
    if values.given("windows"):
        written["windows"] = {**base.windows, **values["windows"]}
    if values.given("sample-every"):
        written["sample_seconds"] = values["sample-every"]
    if values.given("numbers") and values["numbers"] is not None:
        written["numbers"] = NumberFormat(values["numbers"])
    return replace(base, **written)


def read_families(
    entries: Iterable[Values], where: str, quantities: dict[str, Place], report: Report
) -> tuple[FamilySpec, ...]:
    """Families as written; a name that is there twice is reported."""
    families = tuple(read_family(family, quantities, report) for family in entries)
    for name, times in Counter(family.name for family in families).items():
        if times > 1:
            place = next(values.place for values in entries if values["name"] == name)
            report.problem(place, f"{where}: {name!r} is there {times} times: put its rows into one")
    return families


@dataclass(frozen=True)
class Shown:
    """What counters show."""

    families: tuple[FamilySpec, ...]
    labels: tuple[LabelSpec, ...]
    quantity_places: dict[str, Place]


def shown_by_counters(values: Values, making: Making, library: Library, report: Report) -> Shown | None:
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
        shown = counter.shows["rows"] or (counter.shows,)
        rows = tuple(read_row(each, {}, report, table.level) for each in shown)
        for row in rows:
            for name in row.needed:
                quantities.setdefault(name, counter.place)
        number = NumberFormat(counter.shows["format"])
        families.append(FamilySpec(counter.name, counter.kind, counter.help, number, rows))
    if not families and not report.sorted_problems():
        report.problem(place, "the counters have no gauge and no counter")
    return Shown(tuple(families), tuple(sorted(labels, key=lambda label: label.name)), quantities)


def with_labels(identity: Identity, others: Sequence[str], shown: Shown) -> Identity:
    """An identity with the labels of its counters after its leading ones, in place of others."""
    leading = identity.leading_labels
    kept = [label for label in identity.labels[:leading] if label.name not in others]
    rest = [label for label in identity.labels[leading:] if label.name not in others]
    labels = (*kept, *shown.labels, *rest)
    return replace(identity, labels=labels, leading_labels=len(kept) + len(shown.labels))


def arranged(
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
        reported(checked_metric, values["prefix"], values.place_of("prefix"), report)
        kept = [replace(family, name=values["prefix"] + family.name) for family in kept]
    return tuple(kept)


def _numbers(given: NumberFormat, wanted: NumberFormat) -> NumberFormat:
    """How numbers are written that a family writes in one way and an identity in another.

    What has its decimals already, as from the identity that another is based on, keeps them.
    """
    return _AS_GO.get(given, wanted) if wanted is NumberFormat.GO else wanted
