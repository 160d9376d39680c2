"""The differences between two identities, for users who change from one to the other, as in an upgrade."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, RowSpec

#: Levels of devices.
_OF_DEVICES: Final = ("device", "unit", "repeated", "whole", "single", "tiled", "held")


class _Series(NamedTuple):
    """A series of each entity."""

    family: FamilySpec
    row: RowSpec


def identity_differences(old: Identity, new: Identity) -> Iterator[str]:
    """A line for each difference, in the order of :func:`grouped_differences`."""
    return chain.from_iterable(grouped_differences(old, new).values())


def grouped_differences(old: Identity, new: Identity) -> Mapping[str, Sequence[str]]:
    """The differences that users notice, a line each, by their kind; kinds without differences are left out.

    A renamed series shows the same quantity under another name; a renamed label has the same value.
    """
    ours, theirs = ({family.name: family for family in each.families} for each in (old, new))
    both = [(family, theirs[name]) for name, family in ours.items() if name in theirs]
    alike = {family.name for family, other in both if _own_labels(family) == _own_labels(other)}
    groups = {
        "labels": [*_labels_of_rows(old, new), *chain.from_iterable(_labels_of_family(*pair) for pair in both)],
        "HELP": [f'changed  HELP of {a.name}: "{a.help}" -> "{b.help}"' for a, b in both if a.help != b.help],
        "families and series": list(_series_differences(_series(old), _series(new), alike)),
        "types, numbers and conditions": list(_changes(old, new, both, alike)),
        "order and page": list(_page(old, new)),
    }
    return {kind: lines for kind, lines in groups.items() if lines}


def _series(identity: Identity) -> dict[str, _Series]:
    """The series of an entity, by name with own labels."""
    found = {}
    for family in identity.families:
        for row in family.rows:
            labels = ",".join(f'{label.name}="{label.value}"' for label in row.labels)
            found[f"{family.name}{{{labels}}}" if labels else family.name] = _Series(family, row)
    return found


def _own_labels(family: FamilySpec) -> frozenset[str]:
    """The names of labels of some row of a family."""
    return frozenset(label.name for row in family.rows for label in row.labels)


def _series_differences(
    ours: Mapping[str, _Series], theirs: Mapping[str, _Series], alike: Iterable[str]
) -> Iterator[str]:
    """Series that are lost, renamed or added.

    :param alike: families with the same own labels: of other families that both have, no single series is told.
    """
    before, after = ({each.family.name for each in series.values()} for series in (ours, theirs))
    told = (before ^ after) | set(alike)
    lost = [name for name, each in ours.items() if name not in theirs and each.family.name in told]
    added = [name for name, each in theirs.items() if name not in ours and each.family.name in told]
    for name in lost:
        renamed = next((other for other in added if _is_the_same(ours[name], theirs[other])), None)
        if renamed is None:
            yield f"lost     {name}"
            continue
        added.remove(renamed)
        yield f"renamed  {name} -> {renamed}{_in_words(ours[name], theirs[renamed], with_help=True)}"
    for name in added:
        yield f"added    {name}{_condition(theirs[name].row)}"


def _is_the_same(old: _Series, new: _Series) -> bool:
    """Whether two series show the same quantity of the same entity, in any units."""
    before, after = old.row, new.row
    return bool(before.quantity or before.fact) and _source(before) == _source(after)


def _source(row: RowSpec) -> tuple[object, ...]:
    """The source of a row's numbers, regardless of unit and of how devices are divided."""
    level = "device" if row.level in _OF_DEVICES else row.level
    return level, row.quantity, row.fact, row.bits, row.plus, row.per


def _changes(
    old: Identity, new: Identity, both: Iterable[tuple[FamilySpec, FamilySpec]], alike: Iterable[str]
) -> Iterator[str]:
    """What is otherwise changed of series that both have, and of families that have other labels."""
    theirs = _series(new)
    for name, series in _series(old).items():
        if name in theirs and (words := _in_words(series, theirs[name])):
            yield f"changed  {name}{words}"
    for family, other in both:
        words = _in_words(_Series(family, family.rows[0]), _Series(other, other.rows[0]))
        if words and family.name not in alike:
            yield f"changed  {family.name}{words}"


def _in_words(old: _Series, new: _Series, *, with_help: bool = False) -> str:
    changes = []
    if old.family.kind != new.family.kind:
        changes.append(f"TYPE {old.family.kind} -> {new.family.kind}")
    if with_help and old.family.help != new.family.help:
        changes.append("another HELP")
    if old.family.number is not new.family.number:
        changes.append(f"numbers {old.family.number.value} -> {new.family.number.value}")
    if old.row.unit != new.row.unit:
        changes.append(f"unit {old.row.unit} -> {new.row.unit}")
    if old.row.times != new.row.times:
        changes.append(f"times {old.row.times:g} -> {new.row.times:g}")
    if _conditions(old.row) != _conditions(new.row):
        changes.append("under other conditions")
    return ": " + ", ".join(changes) if changes else ""


def _conditions(row: RowSpec) -> tuple[object, ...]:
    return row.where, row.unless, row.between, row.without_it


def _condition(row: RowSpec) -> str:
    """What a row depends on beside its quantity, in words."""
    if row.between:
        return f": only where {row.fact.strip('{}')} is from {row.between[0]} to below {row.between[1]}"
    return ""


def _labels_of_rows(old: Identity, new: Identity) -> Iterator[str]:
    """The labels of every row; then, of levels that have their own, those that differ in another way."""
    every = list(_labels(old.labels, new.labels))
    yield from every
    levels = dict.fromkeys(level for level, _ in (*old.labels_of_levels, *new.labels_of_levels))
    for level in levels:
        yield from (
            f"{line} (rows of the level {level})"
            for line in _labels(old.labels_on(level), new.labels_on(level))
            if line not in every
        )


def _labels_of_family(old: FamilySpec, new: FamilySpec) -> Iterator[str]:
    """The labels that only rows of one family have."""
    before, after = _own_labels(old), _own_labels(new)
    for verb, names in (("lost    ", before - after), ("added   ", after - before)):
        for name in sorted(names):
            yield f"{verb} label {name} on {old.name}"
    for name in sorted(before & after):
        if _texts(old, name) != _texts(new, name):
            yield f"changed  label {name} on {old.name}: other texts"


def _texts(family: FamilySpec, name: str) -> set[tuple[str, str]]:
    """The texts that a label of a family's rows shows in the place of values."""
    return {text for row in family.rows for label in row.labels if label.name == name for text in label.texts}


def _labels(old: Sequence[LabelSpec], new: Sequence[LabelSpec]) -> Iterator[str]:
    before = {label.name: label for label in old}
    after = {label.name: label for label in new}
    lost = [label for name, label in before.items() if name not in after]
    added = [label for name, label in after.items() if name not in before]
    for label in lost:
        renamed = next((other for other in added if other.value == label.value), None)
        if renamed is None:
            yield f"lost     label {label.name}"
            continue
        added.remove(renamed)
        yield f"renamed  label {label.name} -> {renamed.name}"
    for label in added:
        yield f"added    label {label.name}{_presence(label)}"
    for name, label in before.items():
        if name in after and label != after[name]:
            yield f"changed  label {name}: {_described(label)} -> {_described(after[name])}"
    shared = [name for name in before if name in after]
    if shared != [name for name in after if name in before]:
        yield "changed  labels: another order"


def _presence(label: LabelSpec) -> str:
    if label.only_with:
        return f", where there is a {label.only_with}"
    return ", where it has a value" if label.optional else ""


def _described(label: LabelSpec) -> str:
    return label.value + (_presence(label) or ", always")


def _page(old: Identity, new: Identity) -> Iterator[str]:
    before, after = ([family.name for family in each.families] for each in (old, new))
    if [name for name in before if name in after] != [name for name in after if name in before]:
        yield "changed  page: another order of families"
    if old.layout is not new.layout:
        yield f"changed  page: {old.layout.value} -> {new.layout.value}"
    if old.timestamps != new.timestamps:
        yield "changed  page: lines end with a time " + ("no longer" if old.timestamps else "now")
    if old.content_type != new.content_type:
        yield f"changed  page: Content-Type {old.content_type} -> {new.content_type}"
    if old.openmetrics != new.openmetrics:
        yield "changed  page: OpenMetrics is offered " + ("no longer" if old.openmetrics else "now")
    if old.headers != new.headers or old.health_headers != new.health_headers:
        yield "changed  headers of answers"
    if old.answers_post != new.answers_post:
        yield "changed  page: POST is answered " + ("no longer" if old.answers_post else "now")
