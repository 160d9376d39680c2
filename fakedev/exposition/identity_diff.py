"""The differences between two identities, for users who change from one to the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, RowSpec

#: Levels of devices.
_OF_DEVICES: Final = ("device", "unit", "repeated", "whole", "single", "tiled", "held")


class _Series(NamedTuple):
    """A series of each entity."""

    family: FamilySpec
    row: RowSpec


def identity_differences(old: Identity, new: Identity) -> Iterator[str]:
    """A line for each series or label that is renamed, added, lost or otherwise changed.

    A renamed series shows the same quantity under another name; a renamed label has the same value.
    """
    yield from _labels(old.labels, new.labels)
    yield from _page(old, new)
    ours, theirs = _series(old), _series(new)
    lost = [name for name in ours if name not in theirs]
    added = [name for name in theirs if name not in ours]
    for name in lost:
        renamed = next((other for other in added if _is_the_same(ours[name], theirs[other])), None)
        if renamed is None:
            yield f"lost     {name}"
            continue
        added.remove(renamed)
        yield f"renamed  {name} -> {renamed}{_in_words(ours[name], theirs[renamed])}"
    for name in added:
        yield f"added    {name}"
    for name, series in ours.items():
        if name in theirs and (words := _in_words(series, theirs[name])):
            yield f"changed  {name}{words}"


def _series(identity: Identity) -> dict[str, _Series]:
    """The series of an entity, by name with own labels."""
    found = {}
    for family in identity.families:
        for row in family.rows:
            labels = ",".join(f'{label.name}="{label.value}"' for label in row.labels)
            found[f"{family.name}{{{labels}}}" if labels else family.name] = _Series(family, row)
    return found


def _is_the_same(old: _Series, new: _Series) -> bool:
    """Whether two series show the same quantity of the same entity, in any units."""
    before, after = old.row, new.row
    return bool(before.quantity or before.fact) and _source(before) == _source(after)


def _source(row: RowSpec) -> tuple[object, ...]:
    """The source of a row's numbers, regardless of unit and of how devices are divided."""
    level = "device" if row.level in _OF_DEVICES else row.level
    return level, row.quantity, row.fact, row.bits, row.plus, row.per


def _in_words(old: _Series, new: _Series) -> str:
    changes = []
    if old.family.kind != new.family.kind:
        changes.append(f"TYPE {old.family.kind} -> {new.family.kind}")
    if old.family.help != new.family.help:
        changes.append("another HELP")
    if old.family.number is not new.family.number:
        changes.append(f"numbers {old.family.number.value} -> {new.family.number.value}")
    if old.row.unit != new.row.unit:
        changes.append(f"unit {old.row.unit} -> {new.row.unit}")
    if (old.row.where, old.row.unless) != (new.row.where, new.row.unless):
        changes.append("under other conditions")
    return ": " + ", ".join(changes) if changes else ""


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
        yield f"added    label {label.name}"
    for name, label in before.items():
        if name in after and label != after[name]:
            yield f"changed  label {name}: {_described(label)} -> {_described(after[name])}"
    shared = [name for name in before if name in after]
    if shared != [name for name in after if name in before]:
        yield "changed  labels: another order"


def _described(label: LabelSpec) -> str:
    return label.value + (", only where it has a value" if label.optional else ", always")


def _page(old: Identity, new: Identity) -> Iterator[str]:
    if old.layout is not new.layout:
        yield f"changed  page: {old.layout.value} -> {new.layout.value}"
    if old.timestamps != new.timestamps:
        yield "changed  page: lines end with a time " + ("no longer" if old.timestamps else "now")
    if old.content_type != new.content_type:
        yield f"changed  page: Content-Type {old.content_type} -> {new.content_type}"
    before, after = ([family.name for family in each.families] for each in (old, new))
    if [name for name in before if name in after] != [name for name in after if name in before]:
        yield "changed  page: another order of families"
