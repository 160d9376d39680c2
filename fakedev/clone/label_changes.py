"""How the labels of an exporter's pages differ from its identity's: labels that it has beside them, or lacks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fakedev.clone.fleet_reader import OTHER_LABEL, OWNERS_LABEL
from fakedev.exposition.captured import CapturedPage
from fakedev.exposition.identity import Identity, LabelSpec


@dataclass(frozen=True)
class _SeenLabels:
    """Labels of the lines of families that the identity has, without those of single rows.

    :ivar sets: the sets of names on lines, in their order.
    :ivar in_families: in how many families each name is.
    :ivar with_pod: names that are only on lines with a pod.
    :ivar families: how many families there are.
    """

    sets: tuple[tuple[str, ...], ...]
    in_families: Counter[str]
    with_pod: frozenset[str]
    families: int


def with_seen_labels(identity: Identity, page: CapturedPage) -> Identity:
    """The identity with the labels that lines of a page have.

    A label that half of the families have becomes one of every row; a label of the identity that no line has goes, and
    one that only some lines have becomes optional.
    """
    seen = _seen(identity, page)
    if not seen.families:
        return identity
    known = {label.name for label in identity.labels}
    others = [name for name, count in seen.in_families.items() if name not in known and 2 * count >= seen.families]
    labels = []
    for label in identity.labels:
        if label.optional or label.only_with:
            labels.append(label)
        elif seen.in_families[label.name]:
            everywhere = all(label.name in names for names in seen.sets)
            labels.append(label if everywhere else replace(label, optional=True))
    order = merged(seen.sets)
    names = [label.name for label in labels]
    leading = {label.name for label in identity.labels[: identity.leading_labels]}
    for name in sorted(others, key=order.index):
        before = [each for each in order[: order.index(name)] if each in names]
        at = names.index(before[-1]) + 1 if before else 0
        prefix = OWNERS_LABEL if name in seen.with_pod else OTHER_LABEL
        labels.insert(at, LabelSpec(name, f"{{{prefix}{name}}}", optional=True))
        names.insert(at, name)
        if any(each in leading for each in names[at + 1 :]):
            leading.add(name)
    if tuple(labels) == identity.labels:
        return identity
    return replace(identity, labels=tuple(labels), leading_labels=sum(name in leading for name in names))


def foreign_labels(identity: Identity, page: CapturedPage) -> int:
    """How many labels only one of the two has: those that every row of the identity has, or those of the lines."""
    seen = _seen(identity, page)
    every = {label.name for label in identity.labels}
    always = {label.name for label in identity.labels if not (label.optional or label.only_with)}
    return len(always - set(seen.in_families)) + len(set(seen.in_families) - every)


def _seen(identity: Identity, page: CapturedPage) -> _SeenLabels:
    specs = {family.name: family for family in identity.families}
    levels = dict(identity.labels_of_levels)
    sets: dict[tuple[str, ...], None] = {}
    in_families: Counter[str] = Counter()
    with_pod: set[str] = set()
    without_pod: set[str] = set()
    families = 0
    for family in page.families.values():
        spec = specs.get(family.name)
        if spec is None or not family.samples or any(row.level in levels for row in spec.rows):
            continue
        families += 1
        own = {label.name for row in spec.rows for label in row.labels}
        found: set[str] = set()
        for sample in family.samples:
            names = tuple(name for name in sample.label_names if name not in own)
            sets[names] = None
            found.update(names)
            (with_pod if dict(sample.labels).get("pod") else without_pod).update(names)
        in_families.update(found)
    return _SeenLabels(tuple(sets), in_families, frozenset(with_pod - without_pod), families)


def merged(sequences: Iterable[Sequence[str]]) -> list[str]:
    """All names of some sequences in one order: the longest first, others after the name that goes before them."""
    order: list[str] = []
    for sequence in sorted(sequences, key=len, reverse=True):
        at = 0
        for name in sequence:
            if name in order:
                at = order.index(name) + 1
            else:
                order.insert(at, name)
                at += 1
    return order
