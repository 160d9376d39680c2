"""An identity over the entities of a source, for all pages that show it: families, and the labels' texts.

Label texts are kept per group and made anew only when a label of the group changed; every page that
shows a group shares them.
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
from fakedev.exposition.sources import Source
from fakedev.sim.tallies.tallies import XID_LEVEL

Group = TypeVar("Group")


class LabelCache(Generic[Group]):
    """An identity as it shows the groups of a source.

    :param former: before a reload: families, and texts that still hold, are taken from it, if it is of the same
        identity.
    """

    def __init__(self, identity: Identity, source: Source[Group], former: LabelCache[Group] | None = None) -> None:
        self.identity = identity
        self._source = source
        self._before: dict[Group, tuple[object, GroupTexts]] = {}
        self._families: dict[bool, list[Family]] = {}
        if former is not None and former.identity == identity:
            self._before = former._kept
            self._families = former._families
        rows = [(row.level, row.labels, row.fact) for family in identity.families for row in family.rows]
        #: Each kind of row, its level, its own labels and the fact that it shows, with its place.
        self._places = {kind: place for place, kind in enumerate(dict.fromkeys(rows))}
        own: dict[str, list[tuple[LabelSpec, ...]]] = {}
        #: Of each level, for each kind of its rows, the fact that it shows; None where it shows a quantity.
        self._shown: dict[str, list[Template | None]] = {}
        for level, labels, fact in self._places:
            own.setdefault(level, []).append(labels)
            self._shown.setdefault(level, []).append(Template.parse(fact) if fact else None)
        self._labels = {
            level: Labels(identity.labels_on(level), kinds, identity.sort_labels, identity.leading_on(level))
            for level, kinds in own.items()
        }
        self._kept: dict[Group, tuple[object, GroupTexts]] = {}

    def families(self, openmetrics: bool) -> list[Family]:
        """The families of the identity in its order, as OpenMetrics or as text 0.0.4."""
        if openmetrics not in self._families:
            families = self.identity.families
            self._families[openmetrics] = [Family(spec, self._kinds_of(spec), openmetrics) for spec in families]
        return self._families[openmetrics]

    def _kinds_of(self, family: FamilySpec) -> RowKinds:
        numbers = tuple([self._places[row.level, row.labels, row.fact] for row in family.rows])
        return RowKinds(numbers, len({row.level for row in family.rows}) == 1)

    def texts(self, group: Group) -> GroupTexts:
        """The label texts of a group as they are now: the same object as long as no label changes."""
        version = self._source.version(group)
        kept = self._kept.get(group) or self._carried(group)
        if kept is not None and kept[0] == version:
            self._kept[group] = kept
            return kept[1]
        of_level = {level: self._of_level(level, group) for level in self._labels}
        texts = [next(of_level[level]) for level, _, _ in self._places]
        self._kept[group] = version, texts
        return texts

    def _carried(self, group: Group) -> tuple[object, GroupTexts] | None:
        """What was kept of a group before the reload, with the positions of now."""
        was = self._source.former(group) if self._before else None
        kept = None if was is None else self._before.pop(was.group, None)
        if was is None or kept is None:
            return None
        version, texts = kept
        grown = [was.grown(level) for level, _, _ in self._places]
        carried = [
            replace(each, positions=each.positions + by)
            for each, by in zip(texts, grown, strict=True)
            if by is not None
        ]
        return (version, carried) if len(carried) == len(texts) else None

    def _of_level(self, level: str, group: Group) -> Iterator[Labelled]:
        """The entities of a level with the texts of each kind of row, in the order of their places."""
        entities = list(self._source.entities(level, group))
        positions = np.array([position for position, _ in entities], dtype=np.int64)
        written = [self._labels[level].texts(facts) for _, facts in entities]
        owners = None
        if level == XID_LEVEL:
            owners = np.array([int(facts["index"]) for _, facts in entities], dtype=np.int64)
        for place, shown in enumerate(self._shown[level]):
            texts = tuple([_before_number(each[place]) for each in written])
            numbers = None if shown is None else np.array([number_of(shown.value(facts)) for _, facts in entities])
            yield Labelled(positions, texts, numbers, owners)


def _before_number(labels: str) -> bytes:
    return f"{{{labels}}} ".encode() if labels else b" "
