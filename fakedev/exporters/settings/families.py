"""Families, rows and labels of an identity, as written and from its counters, in their order; windows of tallies.

Windows: from the names that identities' files use for what exporters count over windows of time to the names of
tallies.
"""

from __future__ import annotations

import math
import re
from collections import Counter as Counted
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from zope.interface import Interface

from fakedev.base.names import version_number
from fakedev.exporters.identity import FamilySpec, Identity, LabelSpec, NumberFormat, RowSpec
from fakedev.exporters.labels import Template
from fakedev.exporters.row_levels import PAGE, PAGE_QUANTITIES, WORK_LEVELS
from fakedev.exporters.settings.counters import Counter, FieldTable, read_counters
from fakedev.exporters.settings.loaded import LoadedIdentity, Making
from fakedev.exporters.wandering import Wander
from fakedev.fleet.links.link_levels import LINK_QUANTITIES
from fakedev.fleet.racks.racks import RACK_QUANTITIES
from fakedev.fleet.spec.quantities import (
    CLOCK_SAMPLES,
    MAX_SAMPLES,
    XIDS,
    Tally,
    is_sampled,
    is_tally,
    quantity_in_file,
    tallies_of,
)
from fakedev.schema.places import Place, Report
from fakedev.schema.sections import Values, did_you_mean

#: What a row may show.
_SHOWING: Final = ("quantity", "constant", "fact", "random")
#: By how much sums of rounded shares may be over 1.
_ROUNDED: Final = 1e-6
_METRIC: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

#: Levels of entities that rows can be of.
LEVELS: Final = (
    "device", "held", "xid", "xid/device", "peer", "part", "unit", "unit/bare", "repeated", "whole", "whole/bare",
    "tile", "tiled", "single", "link", "port", "switch", "cpu", "cpucore", "host", *WORK_LEVELS, *PAGE_QUANTITIES,
)  # fmt: skip
#: The links of one number of all devices.
_NUMBERED: Final = re.compile(r"link/\d{1,2}")
#: GO formats that keep the decimals of a family.
_AS_GO: Final = {
    NumberFormat.INT: NumberFormat.GO_WHOLE,
    NumberFormat.FIXED6: NumberFormat.GO_FIXED6,
    **{each: each for each in (NumberFormat.GO_WHOLE, NumberFormat.GO_FIXED2, NumberFormat.GO_FIXED6)},
}


class ILibrary(Interface):
    """The parts of identities; None when there is none or it has problems, which were reported."""

    def identity(name: str, place: Place) -> LoadedIdentity | None:
        """Another identity by its name."""

    def text(path: str, place: Place, what: str) -> tuple[str, str] | None:
        """The text of a file, and its name in problems."""

    def field_table(name: str, place: Place) -> FieldTable | None:
        """The fields that counters may name."""


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
    if not LABEL_NAME.fullmatch(name) or name.startswith("__"):
        raise ValueError(f"{name[:80]!r} is no label name: letters, digits and _ only, no digit and no __ first")
    return name


def check_rows(family: FamilySpec, identity: Identity, place: Place, report: Report) -> None:
    """Reports labels given twice on a line, and rows that would be the same series."""
    levels = {row.level for row in family.rows}
    if PAGE in levels and len(levels) > 1:
        others = ", ".join(sorted(levels - {PAGE}))
        report.problem(place, f"{family.name}: rows of the level page stand alone: put those of {others} elsewhere")
    seen: dict[tuple[str, frozenset[tuple[str, str]]], list[RowSpec]] = {}
    for row in family.rows:
        names = Counted(label.name for label in (*identity.labels_on(row.level), *row.labels))
        for name, times in names.items():
            if times > 1:
                report.problem(place, f"{family.name}: the label {name!r} is given {times} times on a line: remove one")
        series = (row.level, frozenset((label.name, label.value) for label in row.labels))
        alike = seen.setdefault(series, [])
        if not all(row.excludes(other) for other in alike):
            report.problem(place, f"{family.name}: two rows have the same labels: give them a label that differs")
        alike.append(row)


def read_family(values: Values, quantities: dict[str, Place], report: Report) -> FamilySpec:
    """A family; problems are reported.

    :param quantities: gathers the quantities that it names, with their places.
    """
    name = values["name"] or ""
    if name:
        report.tried(values.place_of("name"), "", checked_metric, name)
    if sum((bool(values["rows"]), *(values.given(key) for key in _SHOWING))) != 1:
        report.problem(values.place, f"{name}: give either quantity, or constant, or fact, or random, or rows")
    rows = [numbered_row for row in values["rows"] for numbered_row in numbered_rows(row, quantities, report)]
    if not rows and (values["quantity"] or values["fact"] or values["constant"] is not None or values["random"]):
        rows = numbered_rows(values, quantities, report)
    only, excepted = (_texts_of_a_fact(values, key, name, report) for key in ("only", "except"))
    rows = [replace(row, only=row.only or only, excepted=row.excepted or excepted) for row in rows]
    return FamilySpec(
        name=name,
        kind=values["type"] or "gauge",
        help=values["help"] or "",
        number=values["format"] or NumberFormat.GO,
        rows=tuple(rows),
    )


def _texts_of_a_fact(values: Values, key: str, name: str, report: Report) -> tuple[str, ...]:
    """The fact by which devices have a family or not, and its texts; empty where that depends on none."""
    facts = values[key].items()
    if len(facts) > 1:
        report.problem(values.place_of(key), f"{name}: {key}: give one fact, not {', '.join(values[key])}")
    return next(((fact, *texts) for fact, texts in facts), ())


def numbered_rows(values: Values, quantities: dict[str, Place], report: Report) -> list[RowSpec]:
    """A row, or in its place the rows of the things that it numbers."""
    row = read_row(values, quantities, report)
    rows = [row]
    for label, count in values["numbered"].items():
        report.tried(values.place_of("numbered"), "", checked_label, label)
        own = [LabelSpec(label, str(number)) for number in range(count)]
        rows = [replace(row, labels=(*row.labels, number)) for row in rows for number in own]
    return rows


def read_row(
    values: Values, quantities: dict[str, Place], report: Report, usual_level: str = "device"
) -> RowSpec:
    """A row, or the one row of a family in its short form.

    :param quantities: gathers the quantities that it names, with their places.
    :param usual_level: its level when none is written.
    """
    quantity = quantity_in_file(values["quantity"] or "")
    fact, per = values["fact"], quantity_in_file(values["per"])
    if sum((bool(quantity), bool(fact), values["constant"] is not None, values["random"] is not None)) != 1:
        report.problem(values.place, "a row shows either a quantity, or a constant, or a fact, or a random process")
    report.tried(values.place_of("fact"), "", Template.parse, fact)
    requires = quantity_in_file(values["requires"])
    if is_per_fact := "{" in per:
        report.tried(values.place_of("per"), "per: ", Template.parse, per)
        if fact:
            report.problem(values.place_of("per"), "per: a fact is not divided by another")
        fact, per = per, ""
    if values["else"] is not None and not (quantity and requires):
        report.problem(values.place_of("else"), "else is for a row of a quantity with requires: give both")
    if values["bits"] and not quantity:
        report.problem(values.place_of("bits"), "bits need a quantity: give one, or remove bits")
    if quantity:
        quantities.setdefault(quantity, values.place_of("quantity"))
    plus, where, unless, without = (
        _named(values, key, quantities) for key in ("plus", "where", "unless", "without")
    )  # fmt: skip
    only, excepted = (_texts_of_a_fact(values, key, "a row", report) for key in ("only", "except"))
    level = values["level"] or usual_level
    if level not in LEVELS and not _NUMBERED.fullmatch(level):
        report.problem(values.place_of("level"), f"level: {level!r} is none of {', '.join(LEVELS)}")
    for name, key in ((per, "per"), (requires, "requires")):
        if name:
            quantities.setdefault(name, values.place_of(key))
    row = values.build(
        RowSpec, quantity=quantity, labels=read_labels(values["labels"], "labels", report), level=level,
        requires=requires, plus=plus, per=per, where=where, unless=unless, fact=fact, only=only, excepted=excepted,
        is_per_fact=is_per_fact, without=without, random=_read_random(values["random"], report),
    )  # fmt: skip
    row = _of_drivers(row, values, report)
    _check_linked(row, values.place_of("quantity"), report)
    return row


def _read_random(values: Values | None, report: Report) -> Wander | None:
    """A random process; what cannot be one is reported."""
    if values is None:
        return None
    wander = values.build(Wander, quantiles=values["quantiles"] or (0.0,), shares=values["shares"])
    if list(wander.quantiles) != sorted(wander.quantiles):
        report.problem(values.place_of("quantiles"), "quantiles: they must not fall: the smallest first")
    if wander.shares and (len(wander.shares) != len(wander.quantiles) or not sum(wander.shares)):
        report.problem(
            values.place_of("shares"), f"shares: give one for each of the {len(wander.quantiles)} quantiles, not all 0"
        )
    if wander.own + wander.noise > 1.0 + _ROUNDED:
        report.problem(values.place_of("noise"), "noise: own and noise are shares of one variance: at most 1 together")
    return wander


def _of_drivers(row: RowSpec, values: Values, report: Report) -> RowSpec:
    """A row with the drivers that may have it; in the form of 0.2.0 it has a fact, and shows 0."""
    key = "between" if values["between"] else "drivers"
    report.tried(values.place_of(key), f"{key}: ", _check_versions, values[key])
    if not values["between"]:
        return row
    if row.fact != "{driver_version}":
        report.problem(values.place_of(key), "between is about the fact {driver_version}: give drivers instead")
    return replace(row, fact="", constant=0.0, drivers=values[key])


def _check_versions(versions: Sequence[str]) -> None:
    """
    :raises ValueError: for texts that are no versions, and for more than two.
    """
    if len(versions) > 2:
        raise ValueError("give the first version, and the first that is above")
    for version in versions:
        if version_number(version) is None:
            raise ValueError(f"{version[:40]!r} is no version, as 580.65")


def _check_linked(row: RowSpec, place: Place, report: Report) -> None:
    """Reports quantities that links and switches, or pages and nodes, have not."""
    known = {**LINK_QUANTITIES, **PAGE_QUANTITIES, **RACK_QUANTITIES}.get(row.state_level, ())
    for name in row.named if known else ():
        if name not in known:
            hint = did_you_mean(name, known) or f"there is {', '.join(known)}"
            report.problem(place, f"the level {row.level} has no quantity {name!r}; {hint}")


def _named(values: Values, key: str, quantities: dict[str, Place]) -> tuple[str, ...]:
    names = tuple(map(quantity_in_file, values[key]))
    for name, node in zip(names, values.items_of(key), strict=False):
        quantities.setdefault(name, node.place)
    return names


def read_labels(entries: Sequence[Values], where: str, report: Report) -> tuple[LabelSpec, ...]:
    """Labels; names that cannot be, and those given twice, are reported."""
    labels = []
    for values in entries:
        name, template = values["name"] or "", values["value"] or ""
        if name:
            report.tried(values.place_of("name"), "", checked_label, name)
        report.tried(values.place_of("value"), "", Template.parse, template)
        labels.append(values.build(LabelSpec, texts=tuple(values["texts"].items())))
    _check_names(entries, where, "given", "remove one", report)
    return tuple(labels)


def _check_names(entries: Sequence[Values], where: str, state: str, remedy: str, report: Report) -> None:
    """Reports names that several entries have, at the first of these."""
    for name, times in Counted(values["name"] for values in entries).items():
        if name and times > 1:
            place = next(values.place for values in entries if values["name"] == name)
            report.problem(place, f"{where}: {name!r} is {state} {times} times: {remedy}")


def making_of(values: Values, base: Making) -> Making:
    """How the families are built: as those of the base, with the values that are written."""
    given = {field for key, field in values.section.fields_of(Making).items() if values.given(key)}
    written = {field: value for field, value in values.fields_of(Making).items() if field in given}
    both = {name: {**getattr(base, name), **values[name]} for name in ("windows", "variants")}
    return replace(base, **{**written, **both})


def read_families(
    entries: Sequence[Values], where: str, quantities: dict[str, Place], report: Report
) -> tuple[FamilySpec, ...]:
    """Families as written; a name that is there twice is reported."""
    families = tuple(read_family(family, quantities, report) for family in entries)
    _check_names(entries, where, "there", "put its rows into one", report)
    return families


@dataclass(frozen=True)
class Shown:
    """What counters show."""

    families: tuple[FamilySpec, ...]
    labels: tuple[LabelSpec, ...]
    quantity_places: dict[str, Place]


def shown_by_counters(values: Values, making: Making, library: ILibrary, report: Report) -> Shown | None:
    """The families and labels of an identity's counters; None without, or when they are wrong."""
    given, place = values["counters"], values.place_of("counters")
    skips_unknown = isinstance(given, Values) and given["unknown"] == "skip"
    if isinstance(given, Values):
        given, place = given["file"], given.place_of("file")
    if not given:
        return None
    if values.given("families"):
        report.problem(place, "counters replace families: give one of the two")
    table = library.field_table(making.fields, values.place_of("fields"))
    if "\n" in given:
        # The first row is on the line after the bar.
        text, place = given, place._replace(line=place.line + 1)
    else:
        found = library.text(given, place, "the counters file")
        if found is None:
            return None
        text, place = found[0], Place(found[1], 1)
    if table is None:
        return None
    quantities: dict[str, Place] = {}
    families, labels = [], []
    for counter in read_counters(text, place, table, report, skips_unknown=skips_unknown):
        if counter.kind == "label":
            labels.append(LabelSpec(counter.name, counter.shows["label"] or counter.shows["fact"], skips_unknown))
            continue
        shown = _variant(counter, values, making, report) or counter.shows["rows"] or (counter.shows,)
        rows = tuple(table.with_capability(read_row(row, {}, report, table.level), counter) for row in shown)
        for row in rows:
            for name in row.needed:
                quantities.setdefault(name, counter.place)
        families.append(FamilySpec(counter.name, counter.kind, counter.help, counter.shows["format"], rows))
    if not families and not report.sorted_problems():
        report.problem(place, "the counters have no gauge and no counter")
    return Shown(tuple(families), tuple(sorted(labels, key=lambda label: label.name)), quantities)


def _variant(counter: Counter, values: Values, making: Making, report: Report) -> Sequence[Values]:
    """The rows of the variant of a field that an identity names; none without, or for one that the field has not."""
    name, variants = making.variants.get(counter.name, ""), counter.shows["variants"]
    if name and name not in variants:
        hint = did_you_mean(name, variants) or f"there is {', '.join(variants) or 'none'}"
        report.problem(values.place_of("variants"), f"variants: {counter.name} has no variant {name!r}; {hint}")
        return ()
    return variants[name] if name else ()


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
    library: ILibrary,
    report: Report,
) -> tuple[FamilySpec, ...]:
    """Families, with ``also`` and without those of ``without``, in their order, with number formats and prefix."""
    by_name = {family.name: family for family in families}
    for name, node in zip(values["without"], values.items_of("without"), strict=False):
        if name not in by_name:
            hint = did_you_mean(name, by_name, "; ")
            report.problem(node.place, f"without: there is no family {name!r}{hint}")
    by_name |= {family.name: family for family in also}
    for name, text in values["help-texts"].items():
        if name in by_name:
            by_name[name] = replace(by_name[name], help=text)
        else:
            hint = did_you_mean(name, by_name, "; ")
            report.problem(values.place_of("help-texts"), f"help-texts: there is no family {name!r}{hint}")
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
        report.tried(values.place_of("prefix"), "", checked_metric, values["prefix"])
        kept = [replace(family, name=values["prefix"] + family.name) for family in kept]
    return tuple(kept)


def _numbers(given: NumberFormat, wanted: NumberFormat) -> NumberFormat:
    """The number format of a family in an identity that defines its own.

    Decimals that the base's families already have stay.
    """
    return _AS_GO.get(given, wanted) if wanted is NumberFormat.GO else wanted


#: In the value of a label of a row: its window in milliseconds.
_WINDOW = "{window_ms}"


def with_windows(identity: Identity, making: Making, place: Place, report: Report) -> Identity:
    """An identity whose rows name the tallies that they show, with their windows and intervals."""
    rows = [row for family in identity.families for row in family.rows]
    if not any(row.within or any(map(is_tally, row.named)) for row in rows):
        return identity
    sampled = {row.within for row in rows if not CLOCK_SAMPLES.keys().isdisjoint(row.named)}
    for name, seconds in making.windows.items():
        if name in sampled and seconds > making.sample_seconds * MAX_SAMPLES:
            report.problem(place, f"windows: {name} has more than {MAX_SAMPLES} samples: make sample-every longer")
    return replace(identity, families=tuple(_family(family, making, place, report) for family in identity.families))


def tallies_shown(identities: Iterable[Identity]) -> tuple[Tally, ...]:
    return tallies_of(
        name for identity in identities for family in identity.families for row in family.rows for name in row.named
    )


def _family(family: FamilySpec, making: Making, place: Place, report: Report) -> FamilySpec:
    rows = []
    for row in family.rows:
        problem = _problem(row, making.windows)
        if problem:
            report.problem(place, f"{family.name}: {problem}")
        rows.append(row if problem else _row(row, making))
    return replace(family, rows=tuple(rows))


def _problem(row: RowSpec, windows: Mapping[str, float]) -> str:
    """What is wrong with the window of a row; empty for nothing."""
    counted = [name for name in row.named if name == XIDS or name in CLOCK_SAMPLES]
    if row.within and not counted:
        return f"within: nothing in this row is counted over a window; {XIDS} and clock_..._samples can be"
    if row.within and row.within not in windows:
        hint = did_you_mean(row.within, windows) or f"there is {', '.join(windows) or 'none'}"
        return f"within: no window {row.within!r} in windows; {hint}"
    if not row.within and any(name in CLOCK_SAMPLES for name in counted):
        return "clock_..._samples are counted over a window: give within: the name of one of windows"
    return ""


def _row(row: RowSpec, making: Making) -> RowSpec:
    seconds = making.windows[row.within] if row.within else 0.0

    def named(name: str) -> str:
        if not is_tally(name):
            return name
        within = seconds if name == XIDS or name in CLOCK_SAMPLES else 0.0
        return Tally(name, within, making.sample_seconds if is_sampled(name) else 0.0).name

    def label(spec: LabelSpec) -> LabelSpec:
        return replace(spec, value=spec.value.replace(_WINDOW, f"{seconds * 1000:.0f}"))

    single: dict[str, Any] = {field: named(getattr(row, field)) for field in ("quantity", "requires", "per")}
    several = ("plus", "where", "unless", "without")
    lists: dict[str, Any] = {field: tuple(map(named, getattr(row, field))) for field in several}
    return replace(row, **single, **lists, labels=tuple(map(label, row.labels)))
