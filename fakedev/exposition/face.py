"""An identity over the entities of a source, for all pages that show it: families, and the labels' texts.

Label texts are kept per group and made anew only when a label of the group changed; every page that
shows a group shares them.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import numpy as np

from fakedev.exposition.family import Family
from fakedev.exposition.identity import Identity
from fakedev.exposition.labels import Labels
from fakedev.exposition.lines import GroupTexts, Labelled, RowKind
from fakedev.exposition.sources import Source

Group = TypeVar("Group")


class Face(Generic[Group]):
    """An identity as it shows the groups of a source."""

    def __init__(self, identity: Identity, source: Source[Group]) -> None:
        self.identity = identity
        self._source = source
        self._labels: dict[RowKind, Labels] = {
            (level, own): Labels([*identity.labels, *own], identity.sort_labels, identity.leading_labels)
            for level, own in dict.fromkeys((row.level, row.labels) for each in identity.families for row in each.rows)
        }
        self._families: dict[bool, list[Family]] = {}
        self._kept: dict[Group, tuple[object, GroupTexts]] = {}

    def families(self, openmetrics: bool) -> list[Family]:
        """The families of the identity in its order, as OpenMetrics or as text 0.0.4."""
        if openmetrics not in self._families:
            self._families[openmetrics] = [Family(spec, openmetrics) for spec in self.identity.families]
        return self._families[openmetrics]

    def texts(self, group: Group) -> GroupTexts:
        """The label texts of a group as they are now: the same object as long as no label changes."""
        version = self._source.version(group)
        kept = self._kept.get(group)
        if kept is not None and kept[0] == version:
            return kept[1]
        entities = {level: list(self._source.entities(level, group)) for level in {level for level, _ in self._labels}}
        texts = {
            (level, own): Labelled(
                np.array([position for position, _ in entities[level]], dtype=np.int64),
                tuple([_before_number(labels.text(facts)) for _, facts in entities[level]]),
            )
            for (level, own), labels in self._labels.items()
        }
        self._kept[group] = version, texts
        return texts


def _before_number(labels: str) -> bytes:
    return f"{{{labels}}} ".encode() if labels else b" "
