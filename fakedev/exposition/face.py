"""An identity over the entities of a source, for all pages that show it: families, and the labels' texts.

Label texts are kept per group and made anew only when a label of the group changed; every page that
shows a group shares them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

import numpy as np

from fakedev.exposition.family import Family
from fakedev.exposition.identity import FamilySpec, Identity, LabelSpec
from fakedev.exposition.labels import Labels
from fakedev.exposition.lines import GroupTexts, Labelled, RowKinds
from fakedev.exposition.sources import Source

Group = TypeVar("Group")


class Face(Generic[Group]):
    """An identity as it shows the groups of a source.

    :param former: the same identity before a reload: texts that still hold are taken from it.
    """

    def __init__(self, identity: Identity, source: Source[Group], former: Face[Group] | None = None) -> None:
        self.identity = identity
        self._source = source
        self._before: dict[Group, tuple[object, GroupTexts]] = {} if former is None else former._kept
        rows = [(row.level, row.labels) for family in identity.families for row in family.rows]
        #: Each kind of row, its level and its own labels, with its number.
        self._numbers = {kind: number for number, kind in enumerate(dict.fromkeys(rows))}
        self._own: dict[str, list[tuple[LabelSpec, ...]]] = {}
        for level, own in self._numbers:
            self._own.setdefault(level, []).append(own)
        self._labels = {
            level: Labels(identity.labels, kinds, identity.sort_labels, identity.leading_labels)
            for level, kinds in self._own.items()
        }
        self._families: dict[bool, list[Family]] = {}
        self._kept: dict[Group, tuple[object, GroupTexts]] = {}

    def families(self, openmetrics: bool) -> list[Family]:
        """The families of the identity in its order, as OpenMetrics or as text 0.0.4."""
        if openmetrics not in self._families:
            families = self.identity.families
            self._families[openmetrics] = [Family(spec, self._kinds_of(spec), openmetrics) for spec in families]
        return self._families[openmetrics]

    def _kinds_of(self, family: FamilySpec) -> RowKinds:
        numbers = tuple([self._numbers[row.level, row.labels] for row in family.rows])
        return RowKinds(numbers, len({row.level for row in family.rows}) == 1)

    def texts(self, group: Group) -> GroupTexts:
        """The label texts of a group as they are now: the same object as long as no label changes."""
        version = self._source.version(group)
        kept = self._kept.get(group) or self._carried(group)
        if kept is not None and kept[0] == version:
            self._kept[group] = kept
            return kept[1]
        of_level = {level: self._of_level(level, group) for level in self._labels}
        texts = [next(of_level[level]) for level, _ in self._numbers]
        self._kept[group] = version, texts
        return texts

    def _carried(self, group: Group) -> tuple[object, GroupTexts] | None:
        """What was kept of a group before the reload, with the positions of now."""
        was = self._source.former(group) if self._before else None
        kept = None if was is None else self._before.pop(was.group, None)
        if was is None or kept is None or not self._labels.keys() <= was.grown.keys():
            return None
        version, texts = kept
        grown = [was.grown[level] for level, _ in self._numbers]
        return version, [Labelled(each.positions + by, each.texts) for each, by in zip(texts, grown, strict=True)]

    def _of_level(self, level: str, group: Group) -> Iterator[Labelled]:
        """The entities of a level with the texts of each kind of row, in the order of their numbers."""
        entities = list(self._source.entities(level, group))
        positions = np.array([position for position, _ in entities], dtype=np.int64)
        written = [self._labels[level].texts(facts) for _, facts in entities]
        for number in range(len(self._own[level])):
            yield Labelled(positions, tuple([_before_number(each[number]) for each in written]))


def _before_number(labels: str) -> bytes:
    return f"{{{labels}}} ".encode() if labels else b" "
