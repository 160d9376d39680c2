"""The families and label texts of an identity over the entities of a source, shared by all pages that show them.

Label texts are cached per group and rendered again only when a label of the group has changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from fakedev.exposition.family import Family
from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec, RowSpec
from fakedev.exposition.labels import Labels, Template
from fakedev.exposition.lines import GroupTexts, Labelled, RowKinds
from fakedev.exposition.numbers import number_of, zero_between
from fakedev.exposition.page_levels import FOLLOW_FROM, PAGE, PAGE_QUANTITIES, PROCESS
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
        rows = [_kind_of(row) for family in identity.families for row in family.rows]
        #: The number of each kind of row: its level, its own labels, the fact that it shows, and who may have it.
        self._kinds = {kind: number for number, kind in enumerate(dict.fromkeys(rows))}
        own: dict[str, list[tuple[LabelSpec, ...]]] = {}
        #: For each kind of row of a level the fact that it shows, None where it shows a quantity; and who may have it.
        self._shown: dict[str, list[tuple[Template | None, RowSpec]]] = {}
        for row in self._kinds:
            own.setdefault(row.level, []).append(row.labels)
            self._shown.setdefault(row.level, []).append((Template.parse(row.fact) if row.fact else None, row))
        self._labels = {
            level: Labels(identity.labels_on(level), kinds, identity.sort_labels, identity.leading_on(level))
            for level, kinds in own.items()
        }
        named = {name for family in identity.families for row in family.rows for name in row.named}
        self._has_page_levels = bool({*PAGE_QUANTITIES, PROCESS} & own.keys() or FOLLOW_FROM.keys() & named)
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
        numbers = tuple([self._kinds[_kind_of(row)] for row in family.rows])
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
        texts = [next(of_level[kind.level]) for kind in self._kinds]
        self._cached[group] = version, texts
        return texts

    def _carried_over(self, group: Group) -> tuple[object, GroupTexts] | None:
        """The texts that were cached before the reload, with current positions; None if there are none."""
        previous = self._source.previous(group) if self._before else None
        cached = None if previous is None else self._before.pop(previous.group, None)
        if previous is None or cached is None:
            return None
        version, texts = cached
        shifts = [previous.shift(kind.level) for kind in self._kinds]
        carried = [
            replace(each, positions=each.positions + by)
            for each, by in zip(texts, shifts, strict=True)
            if by is not None
        ]
        return (version, carried) if len(carried) == len(texts) else None

    def _of_level(self, level: str, group: Group) -> Iterator[Labelled]:
        """The entities of a level with their texts, for each of its kinds of rows."""
        every = list(self._source.entities(level, group))
        labelled = [(*entity, self._labels[level].texts(entity[1])) for entity in every]
        for number, (shown, row) in enumerate(self._shown[level]):
            entities = [entity for entity in labelled if row.is_of(entity[1])] if row.is_of_some else labelled
            positions = np.array([position for position, _, _ in entities], dtype=np.int64)
            texts = tuple([_before_number(labels[number]) for _, _, labels in entities])
            of_text = partial(zero_between, row.between[0], row.between[1]) if row.between else number_of
            numbers = None if shown is None else np.array([of_text(shown.value(facts)) for _, facts, _ in entities])
            owners = None
            if level.partition("/")[0] == XID_LEVEL:
                owners = np.array([int(facts["index"]) for _, facts, _ in entities], dtype=np.int64)
            yield Labelled(positions, texts, numbers, owners)


def _kind_of(row: RowSpec) -> RowSpec:
    """What a row has in common with others of its kind: its level, labels and fact, and who may have it."""
    return RowSpec(
        "", "same", row.labels, row.level, fact=row.fact, between=row.between, only=row.only, excepted=row.excepted
    )


def _before_number(labels: str) -> bytes:
    return f"{{{labels}}} ".encode() if labels else b" "
