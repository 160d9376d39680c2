"""Pages: an identity and some groups of entities, compiled to templates that a tick's numbers fill.

The text of all rows but their numbers is kept per group and family, and made anew only when a label
of that group changed. A page is rendered family by family, so a large one can be made in slices that
leave the reactor free; it is made from one State, which never changes, however long that takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from fakedev.exposition.family import Family, Lines, joined
from fakedev.exposition.identity import Identity, LabelSpec, Layout
from fakedev.exposition.labels import Labels
from fakedev.exposition.sources import Entity, Source
from fakedev.sim.state import State

Group = TypeVar("Group")


class Page(Generic[Group]):
    """One page, for as long as its groups exist.

    :param groups: whose entities it shows, in order.
    """

    def __init__(self, identity: Identity, source: Source[Group], groups: Sequence[Group]) -> None:
        self.identity = identity
        self._source = source
        self._groups = tuple(groups)
        self._sorts = identity.layout is Layout.DECLARATIONS_FIRST
        self._families = [Family(family, identity.timestamps) for family in identity.families]
        self._group_lines: list[list[Lines]] = [[] for _ in self._groups]
        self._versions: list[int | None] = [None] * len(self._groups)
        self._lines: list[Lines] = []

    def slices(self, state: State) -> Iterator[bytes]:
        """The page at a tick, piece by piece: joined they are the page."""
        shown = [(family, lines) for family, lines in zip(self._families, self._compiled(state), strict=True)]
        shown = [(family, lines) for family, lines in shown if lines.template]
        timestamp = b"%d" % round(state.wall_seconds * 1000)
        if self._sorts:
            yield b"".join([family.header for family, _ in shown])
            shown.sort(key=lambda each: each[0].name + "{")
        for family, lines in shown:
            rows = family.rendered(lines, state, timestamp)
            yield rows if self._sorts else family.header + rows

    def render(self, state: State) -> bytes:
        """The whole page at a tick."""
        return b"".join(self.slices(state))

    def line_count(self, state: State) -> int:
        """Lines with a number on the page: what it costs to render it."""
        return sum(len(lines.rows) for lines in self._compiled(state))

    def absent_families(self, state: State) -> list[str]:
        """Families of the identity that no entity of the page has."""
        compiled = zip(self._families, self._compiled(state), strict=True)
        return [family.name for family, lines in compiled if not lines.template]

    def _compiled(self, state: State) -> list[Lines]:
        """The lines of all groups, family by family, with the labels of now."""
        versions: list[int | None] = [self._source.version(group) for group in self._groups]
        if versions != self._versions or not self._lines:
            for place, group in enumerate(self._groups):
                if versions[place] != self._versions[place]:
                    self._group_lines[place] = self._lines_of(group, state)
            self._versions = versions
            by_family = zip(*self._group_lines, strict=True) if self._groups else [[] for _ in self._families]
            self._lines = [joined(parts, self._sorts) if parts else Lines.of([], False) for parts in by_family]
        return self._lines

    def _lines_of(self, group: Group, state: State) -> list[Lines]:
        entities: dict[str, Sequence[Entity]] = {}
        texts: dict[tuple[str, tuple[LabelSpec, ...]], list[tuple[int, str]]] = {}

        def row_texts(level: str, own: tuple[LabelSpec, ...]) -> list[tuple[int, str]]:
            if level not in entities:
                entities[level] = list(self._source.entities(level, group))
            if (level, own) not in texts:
                identity = self.identity
                labels = Labels([*identity.labels, *own], identity.sort_labels, identity.leading_labels)
                texts[level, own] = [(position, labels.text(facts)) for position, facts in entities[level]]
            return texts[level, own]

        return [family.compiled(row_texts, state, self._sorts) for family in self._families]
