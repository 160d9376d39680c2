"""Pages: an identity and some groups of entities, compiled to templates that a tick's numbers fill.

The text of all rows but their numbers is kept per group and family, and made anew only when a label
of that group changed. Both are done piece by piece, so that a large page leaves the reactor free;
it shows one State, which never changes, however long that takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Generic, TypeVar

from fakedev.exposition.family import Family, Lines, joined
from fakedev.exposition.identity import Identity, LabelSpec, Layout
from fakedev.exposition.labels import Labels
from fakedev.exposition.sources import Entity, Source
from fakedev.sim.state import State

Group = TypeVar("Group")
#: Groups whose text is made at once: some milliseconds of work for nodes of 8 devices.
_GROUPS_AT_ONCE: Final = 16


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
        self._lines: list[list[Lines]] = [[] for _ in self._groups]
        self._versions: list[int | None] = [None] * len(self._groups)
        self._sorted: tuple[list[int | None], list[Lines]] | None = None

    def compile(self, state: State) -> bool:
        """Bring the texts of some groups up to date with the labels of now.

        :returns: whether all are: until then call it again, with the state of that time.
        """
        versions, version = self._versions, self._source.version
        stale = [place for place, group in enumerate(self._groups) if versions[place] != version(group)]
        for place in stale[:_GROUPS_AT_ONCE]:
            group = self._groups[place]
            versions[place], self._lines[place] = version(group), self._lines_of(group, state)
        return len(stale) <= _GROUPS_AT_ONCE

    def slices(self, state: State) -> Iterator[bytes]:
        """The page at a tick piece by piece: joined they are the page. The texts must be up to date.

        The labels are those of the time of the call, however late the pieces are taken.
        """
        shown = [(family, lines) for family, lines in zip(self._families, self._by_family(), strict=True) if lines]
        return self._rendered(shown, state)

    def _rendered(self, shown: list[tuple[Family, list[Lines]]], state: State) -> Iterator[bytes]:
        timestamp = b"%d" % round(state.wall_seconds * 1000)
        if self._sorts:
            yield b"".join([family.header for family, _ in shown])
            shown = sorted(shown, key=lambda each: each[0].name + "{")
        for family, lines in shown:
            rows = family.rendered(joined(lines), state, timestamp)
            yield rows if self._sorts else family.header + rows

    def render(self, state: State) -> bytes:
        """The whole page at once."""
        while not self.compile(state):
            pass
        return b"".join(self.slices(state))

    def _by_family(self) -> list[list[Lines]]:
        """For each family the lines of the groups that have any."""
        by_family = [[group[n] for group in self._lines if group[n].template] for n in range(len(self._families))]
        if not self._sorts:
            return by_family
        if self._sorted is None or self._sorted[0] != self._versions:
            self._sorted = (list(self._versions), [Lines.sorted_of(lines) for lines in by_family])
        return [[lines] if lines.template else [] for lines in self._sorted[1]]

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
