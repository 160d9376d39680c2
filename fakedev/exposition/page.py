"""Pages: the families of an identity over some groups of entities, with the numbers of a tick.

What stays from tick to tick is the text of all labels (:mod:`fakedev.exposition.label_cache`) and the order of
lines; numbers, and which entities have a quantity at all, are those of the State that is shown. Both
bringing the texts up to date and rendering are done piece by piece, so that a large page leaves the
reactor free; it shows one State, which never changes, however long that takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.exposition.family import Family
from fakedev.exposition.identity import Layout
from fakedev.exposition.label_cache import Face
from fakedev.exposition.lines import NO_LINES, GroupTexts, Lines, RowKinds
from fakedev.exposition.rendering import Part, rendered
from fakedev.sim.entities.state import State

Group = TypeVar("Group")
#: Label texts that are made at once, and those of the group that has the last of them: some milliseconds of work.
_TEXTS_AT_ONCE: Final = 512
#: Looking at which of so many lines are there is a step of its own: it is followed by a pause, an empty piece.
_MANY_LINES: Final = 4096


class Page(Generic[Group]):
    """One page, for as long as its groups exist.

    :param groups: whose entities it shows, in order.
    :param openmetrics: as OpenMetrics instead of text 0.0.4; whoever sends it adds the ``# EOF``.
    """

    def __init__(self, face: Face[Group], groups: Sequence[Group], openmetrics: bool = False) -> None:
        self.identity = face.identity
        self._face = face
        self._openmetrics = openmetrics
        self._sorts = face.identity.layout is Layout.DECLARATIONS_FIRST
        self._families = face.families(openmetrics)
        self._groups: Sequence[Group] = ()
        self._texts: list[GroupTexts | None] = []
        self._next = 0
        self._lines: dict[RowKinds, Lines] = {}
        #: Lines that are yet to be sorted, and of which of them the order is known.
        self._unsorted: dict[RowKinds, Lines] = {}
        self._sorted: set[RowKinds] = set()
        #: The order of lines that are sorted, when they were made last.
        self._orders: dict[RowKinds, NDArray[np.int64]] = {}
        self.regroup(groups)

    def regroup(self, groups: Sequence[Group]) -> None:
        """Show these groups from now on."""
        if groups != self._groups:
            self._groups = groups
            self._texts = [None] * len(groups)
            self._next = 0
            self._forget_lines()

    def compile(self) -> bool:
        """Bring some of the texts up to date with the labels of now.

        :returns: whether all are: until then call it again.
        """
        made = 0
        for _ in self._groups:
            place, self._next = self._next, (self._next + 1) % len(self._groups)
            texts = self._face.texts(self._groups[place])
            if texts is not self._texts[place]:
                self._texts[place] = texts
                self._forget_lines()
                made += sum(len(each.texts) for each in texts)
                if made >= _TEXTS_AT_ONCE:
                    return False
        for family in self._families:
            if family.kinds not in self._lines:
                self._make_lines(family.kinds)
                return False
        return True

    def _make_lines(self, kinds: RowKinds) -> None:
        """The lines of families with such rows; those that are to be sorted in three steps, a call each."""
        if kinds not in self._unsorted:
            lines = Lines.of([texts for texts in self._texts if texts is not None], kinds)
            (self._unsorted if self._sorts else self._lines)[kinds] = lines
        elif kinds not in self._sorted:
            self._orders[kinds] = self._unsorted[kinds].order(self._orders.get(kinds))
            self._sorted.add(kinds)
        else:
            self._lines[kinds] = self._unsorted.pop(kinds).in_order(self._orders[kinds])

    def _forget_lines(self) -> None:
        self._lines, self._unsorted, self._sorted = {}, {}, set()

    def slices(self, state: State) -> Iterator[bytes]:
        """The page at a tick piece by piece, some empty: joined they are the page. The texts must be up to date.

        The labels are those of the time of the call, however late the pieces are taken.
        """
        by_family = [(family, self._lines[family.kinds]) for family in self._families]
        return rendered(self._parts(by_family, state), state, self._line_end(state))

    def render(self, state: State) -> bytes:
        """The whole page at once."""
        while not self.compile():
            pass
        return b"".join(self.slices(state))

    def _parts(self, by_family: list[tuple[Family, Lines]], state: State) -> Iterator[Part | None]:
        """The declarations and the lines that are present, in the order of the page."""
        later: list[Part] = []
        for family, lines in by_family:
            present = family.present(lines, state)
            if len(lines.texts) >= _MANY_LINES:
                yield None
            if not present.texts:
                continue
            if self._sorts:
                yield Part(family.header, family, NO_LINES)
                later.append(Part(b"", family, present))
            else:
                yield Part(family.header, family, present)
        yield from sorted(later, key=_first_line)

    def _line_end(self, state: State) -> bytes:
        if not self.identity.timestamps:
            return b"\n"
        milliseconds = round(state.wall_seconds * 1000)
        return b" %d.%03d\n" % divmod(milliseconds, 1000) if self._openmetrics else b" %d\n" % milliseconds


def _first_line(part: Part) -> bytes:
    return part.family.name + part.lines.texts[0]
