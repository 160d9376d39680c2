"""Pages: an identity and some groups of entities, compiled to templates that a tick's numbers fill.

The text of all rows but their numbers is kept, and made anew only where a label changed: label texts
per group, templates per family and block of groups. Both this and rendering are done piece by piece,
so that a large page leaves the reactor free; it shows one State, which never changes, however long
that takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from fakedev.exposition.family import Family, Lines, RowKind, RowTexts
from fakedev.exposition.identity import Identity, Layout
from fakedev.exposition.labels import Labels
from fakedev.exposition.sources import Source
from fakedev.sim.state import State

Group = TypeVar("Group")
#: Groups of a block, whose templates are made at once: some milliseconds of work for nodes of 8 devices.
_GROUPS_AT_ONCE: Final = 16
#: The most that is sent at once.
_SLICE_BYTES: Final = 64 * 1024


class _Block(Generic[Group]):
    """Some groups of a page, and what is kept of them.

    :ivar versions: of each group, when ``texts`` was made.
    :ivar lines: for each family its lines, none where it has none.
    """

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = tuple(groups)
        self.versions: list[int | None] = [None] * len(self.groups)
        self.texts: list[RowTexts] = [{} for _ in self.groups]
        self.lines: list[list[Lines]] = []


class Page(Generic[Group]):
    """One page, for as long as its groups exist.

    :param groups: whose entities it shows, in order.
    :param openmetrics: as OpenMetrics instead of text 0.0.4; whoever sends it adds the ``# EOF``.
    """

    def __init__(
        self, identity: Identity, source: Source[Group], groups: Sequence[Group], openmetrics: bool = False
    ) -> None:
        self.identity = identity
        self._openmetrics = openmetrics
        self._source = source
        self._sorts = identity.layout is Layout.DECLARATIONS_FIRST
        self._families = [Family(family, identity.timestamps, openmetrics) for family in identity.families]
        kinds = dict.fromkeys((row.level, row.labels) for family in identity.families for row in family.rows)
        self._labels: dict[RowKind, Labels] = {
            (level, own): Labels([*identity.labels, *own], identity.sort_labels, identity.leading_labels)
            for level, own in kinds
        }
        firsts = range(0, len(groups), _GROUPS_AT_ONCE)
        self._blocks = [_Block(groups[first : first + _GROUPS_AT_ONCE]) for first in firsts]
        self._next = 0
        self._sorted: list[list[Lines]] | None = None

    def compile(self, state: State) -> bool:
        """Bring the texts of some groups up to date with the labels of now.

        :returns: whether all are: until then call it again, with the state of that time.
        """
        has_worked = False
        for _ in self._blocks:
            block = self._blocks[self._next]
            versions = [self._source.version(group) for group in block.groups]
            if versions != block.versions:
                if has_worked:
                    return False
                has_worked = True
                self._compile(block, versions, state)
            self._next = (self._next + 1) % len(self._blocks)
        return True

    def slices(self, state: State) -> Iterator[bytes]:
        """The page at a tick piece by piece: joined they are the page. The texts must be up to date.

        The labels are those of the time of the call, however late the pieces are taken.
        """
        by_family = zip(self._families, self._by_family(), strict=True)
        shown = [(family, lines) for family, lines in by_family if lines]
        return _gathered(self._rendered(shown, state))

    def render(self, state: State) -> bytes:
        """The whole page at once."""
        while not self.compile(state):
            pass
        return b"".join(self.slices(state))

    def _rendered(self, shown: list[tuple[Family, list[Lines]]], state: State) -> Iterator[bytes]:
        milliseconds = round(state.wall_seconds * 1000)
        timestamp = b"%d.%03d" % divmod(milliseconds, 1000) if self._openmetrics else b"%d" % milliseconds
        if self._sorts:
            yield from [family.header for family, _ in shown]
            shown = sorted(shown, key=lambda each: each[1][0].template)
        for family, lines in shown:
            if not self._sorts:
                yield family.header
            yield from family.rendered(lines, state, timestamp)

    def _by_family(self) -> list[list[Lines]]:
        """For each family its lines, in the order of the page."""
        by_family = [[part for block in self._blocks for part in block.lines[n]] for n in range(len(self._families))]
        if not self._sorts:
            return by_family
        if self._sorted is None:
            self._sorted = [Lines.sorted_of(lines) for lines in by_family]
        return self._sorted

    def _compile(self, block: _Block[Group], versions: list[int], state: State) -> None:
        for place, group in enumerate(block.groups):
            if versions[place] != block.versions[place]:
                block.texts[place] = self._texts(group)
        block.versions = list(versions)
        block.lines = [
            Lines.cut([entry for texts in block.texts for entry in family.entries(texts, state)], self._sorts)
            for family in self._families
        ]
        self._sorted = None

    def _texts(self, group: Group) -> RowTexts:
        entities = {level: list(self._source.entities(level, group)) for level in {level for level, _ in self._labels}}
        return {
            (level, own): [(position, _as_template(labels.text(facts))) for position, facts in entities[level]]
            for (level, own), labels in self._labels.items()
        }


def _as_template(labels: str) -> bytes:
    return f"{{{labels}}}".replace("%", "%%").encode() if labels else b""


def _gathered(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces: as few as can be had without cutting any, up to 64 KiB."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        if size + len(piece) > _SLICE_BYTES and waiting:
            yield b"".join(waiting)
            waiting, size = [], 0
        waiting.append(piece)
        size += len(piece)
    if waiting:
        yield b"".join(waiting)
