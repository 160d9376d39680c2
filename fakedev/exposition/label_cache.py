"""The families and label texts of an identity over the entities of a source, shared by all pages that show them.

Label texts are cached per group and rendered again only when a label of the group has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from fakedev.exposition.family import Family
from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec
from fakedev.exposition.labels import Labels, Template
from fakedev.exposition.lines import GroupTexts, Labelled, RowKinds
from fakedev.exposition.numbers import number_of, zero_between
from fakedev.exposition.sources import Source
from fakedev.sim.tallies.tallies import XID_LEVEL

Group = TypeVar("Group")


class LabelCache(Generic[Group]):
    """Families and label texts of an identity over the groups of a source.

    :param previous: the cache before a reload: its families and valid texts are reused if the identity is the same.
    """

    def __init__(self, identity: Identity, source: Source[Group], previous: LabelCache[Group] | None = None) -> None:
        self.identity = identity
        self._source = source
        self._before: dict[Group, tuple[object, GroupTexts]] = {}
        self._families: dict[bool, list[Family]] = {}
        if previous is not None and previous.identity == identity:
            self._before = previous._cached
            self._families = previous._families
        rows = [(row.level, row.labels, row.fact, row.between) for each in identity.families for row in each.rows]
        #: The number of each kind of row: its level, its own labels, the fact that it shows and its versions.
        self._kinds = {kind: number for number, kind in enumerate(dict.fromkeys(rows))}
        own: dict[str, list[tuple[LabelSpec, ...]]] = {}
        #: For each kind of row of a level the number of a fact's text, and the fact; None where it shows a quantity.
        self._shown: dict[str, list[Callable[[str], float] | None]] = {}
        self._facts: dict[str, list[Template]] = {}
        for level, labels, fact, between in self._kinds:
            own.setdefault(level, []).append(labels)
            number = partial(zero_between, *between) if between else number_of
            self._shown.setdefault(level, []).append(number if fact else None)
            self._facts.setdefault(level, []).append(Template.parse(fact))
        self._labels = {
            level: Labels(identity.labels_on(level), kinds, identity.sort_labels, identity.leading_on(level))
            for level, kinds in own.items()
        }
        self._cached: dict[Group, tuple[object, GroupTexts]] = {}

    def families(self, openmetrics: bool) -> list[Family]:
        """The families of the identity in order, as OpenMetrics or as text 0.0.4."""
        if openmetrics not in self._families:
            families = self.identity.families
            self._families[openmetrics] = [Family(spec, self._kinds_of(spec), openmetrics) for spec in families]
        return self._families[openmetrics]

    def _kinds_of(self, family: FamilySpec) -> RowKinds:
        numbers = tuple([self._kinds[row.level, row.labels, row.fact, row.between] for row in family.rows])
        return RowKinds(numbers, len({row.level for row in family.rows}) == 1)

    def texts(self, group: Group) -> GroupTexts:
        """The current label texts of a group: the same object as long as no label changes."""
        version = self._source.version(group)
        cached = self._cached.get(group) or self._carried_over(group)
        if cached is not None and cached[0] == version:
            self._cached[group] = cached
            return cached[1]
        of_level = {level: self._of_level(level, group) for level in self._labels}
        texts = [next(of_level[level]) for level, *_ in self._kinds]
        self._cached[group] = version, texts
        return texts

    def _carried_over(self, group: Group) -> tuple[object, GroupTexts] | None:
        """The texts that were cached before the reload, with current positions; None if there are none."""
        previous = self._source.previous(group) if self._before else None
        cached = None if previous is None else self._before.pop(previous.group, None)
        if previous is None or cached is None:
            return None
        version, texts = cached
        shifts = [previous.shift(level) for level, *_ in self._kinds]
        carried = [
            replace(each, positions=each.positions + by)
            for each, by in zip(texts, shifts, strict=True)
            if by is not None
        ]
        return (version, carried) if len(carried) == len(texts) else None

    def _of_level(self, level: str, group: Group) -> Iterator[Labelled]:
        """The entities of a level with their texts, for each of its kinds of rows."""
        entities = list(self._source.entities(level, group))
        positions = np.array([position for position, _ in entities], dtype=np.int64)
        labels = [self._labels[level].texts(facts) for _, facts in entities]
        owners = None
        if level == XID_LEVEL:
            owners = np.array([int(facts["index"]) for _, facts in entities], dtype=np.int64)
        for number, shown in enumerate(self._shown[level]):
            texts = tuple([_before_number(each[number]) for each in labels])
            fact = self._facts[level][number]
            numbers = None if shown is None else np.array([shown(fact.value(facts)) for _, facts in entities])
            yield Labelled(positions, texts, numbers, owners)


def _before_number(labels: str) -> bytes:
    return f"{{{labels}}} ".encode() if labels else b" "
