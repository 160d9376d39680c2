"""The families and label texts of an identity over the entities of a source, shared by all pages that show them.

Label texts are cached per group and rendered again only when a label of the group has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Generic, TypeVar

import numpy as np

from fakedev.exposition.family import Family
from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec
from fakedev.exposition.labels import Labels, Template
from fakedev.exposition.lines import GroupTexts, Labelled, RowKinds
from fakedev.exposition.numbers import number_of
from fakedev.exposition.page_levels import PAGE, PAGE_QUANTITIES
from fakedev.exposition.sources import Source
from fakedev.sim.entities.state import State
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
        rows = [(row.level, row.labels, row.fact) for family in identity.families for row in family.rows]
        #: The number of each kind of row: its level, its own labels and the fact that it shows.
        self._kinds = {kind: number for number, kind in enumerate(dict.fromkeys(rows))}
        own: dict[str, list[tuple[LabelSpec, ...]]] = {}
        #: For each kind of row of a level the fact that it shows; None where it shows a quantity.
        self._shown: dict[str, list[Template | None]] = {}
        for level, labels, fact in self._kinds:
            own.setdefault(level, []).append(labels)
            self._shown.setdefault(level, []).append(Template.parse(fact) if fact else None)
        self._labels = {
            level: Labels(identity.labels_on(level), kinds, identity.sort_labels, identity.leading_on(level))
            for level, kinds in own.items()
        }
        self._has_page_levels = identity.has_processes or not PAGE_QUANTITIES.keys().isdisjoint(own)
        self._cached: dict[Group, tuple[object, GroupTexts]] = {}

    def completed(self, state: State) -> State:
        """A state with the levels of pages, if the identity shows them."""
        return self._source.completed(state) if self._has_page_levels else state

    def families(self, openmetrics: bool) -> list[Family]:
        """The families of the identity in order, as OpenMetrics or as text 0.0.4."""
        if openmetrics not in self._families:
            families = self.identity.families
            self._families[openmetrics] = [Family(spec, self._kinds_of(spec), openmetrics) for spec in families]
        return self._families[openmetrics]

    def _kinds_of(self, family: FamilySpec) -> RowKinds:
        numbers = tuple([self._kinds[row.level, row.labels, row.fact] for row in family.rows])
        levels = {row.level for row in family.rows}
        return RowKinds(numbers, len(levels) == 1, levels == {PAGE})

    def texts(self, group: Group) -> GroupTexts:
        """The current label texts of a group: the same object as long as no label changes."""
        version = self._source.version(group)
        cached = self._cached.get(group) or self._carried_over(group)
        if cached is not None and cached[0] == version:
            self._cached[group] = cached
            return cached[1]
        of_level = {level: self._of_level(level, group) for level in self._labels}
        texts = [next(of_level[level]) for level, _, _ in self._kinds]
        self._cached[group] = version, texts
        return texts

    def _carried_over(self, group: Group) -> tuple[object, GroupTexts] | None:
        """The texts that were cached before the reload, with current positions; None if there are none."""
        previous = self._source.previous(group) if self._before else None
        cached = None if previous is None else self._before.pop(previous.group, None)
        if previous is None or cached is None:
            return None
        version, texts = cached
        shifts = [previous.shift(level) for level, _, _ in self._kinds]
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
        if level.partition("/")[0] == XID_LEVEL:
            owners = np.array([int(facts["index"]) for _, facts in entities], dtype=np.int64)
        for number, shown in enumerate(self._shown[level]):
            texts = tuple([_before_number(each[number]) for each in labels])
            numbers = None if shown is None else np.array([number_of(shown.value(facts)) for _, facts in entities])
            yield Labelled(positions, texts, numbers, owners)


def _before_number(labels: str) -> bytes:
    return f"{{{labels}}} ".encode() if labels else b" "
