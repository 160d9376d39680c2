"""Pages: the families of an identity over some groups of entities, with the numbers of a tick.

What stays from tick to tick is the text of all labels (:mod:`fakedev.exposition.label_cache`) and the order of
lines; numbers, and which entities have a quantity at all, are those of the State that is shown. Both
bringing the texts up to date and rendering are done piece by piece, so that a large page leaves the
reactor free; it shows one State, which never changes, however long that takes.

Families and their lines to the bytes of a page.

What costs most on the page of one node is not its few numbers but the calls for each family, so numbers of all
families that are written in the same way are formatted together, and joined with their lines at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.exposition.family import Family
from fakedev.exposition.identity import Layout, NumberFormat
from fakedev.exposition.label_cache import LabelCache
from fakedev.exposition.lines import NO_LINES, GroupTexts, Lines, RowKinds
from fakedev.exposition.numbers import formatted
from fakedev.sim.entities.state import State

#: Lines whose numbers are formatted together, at most.
_LINES_AT_ONCE: Final = 4096
#: Size of a piece, about: what it is made of is still in the processor's cache when it is used.
_PIECE_BYTES: Final = 56 * 1024
#: What a number takes in a line, about.
_NUMBER_BYTES: Final = 12


class Part(NamedTuple):
    """A part of a page: some bytes, and then lines of a family, all of them present."""

    before: bytes
    family: Family
    lines: Lines


def rendered(parts: Iterable[Part | None], state: State, line_end: bytes) -> Iterator[bytes]:
    """A page in pieces of about 56 KiB, and an empty one for each pause.

    :param parts: in the order of the page; None for a pause, in which others may have their turn.
    :param line_end: what follows each number, the line feed included.
    """
    made: list[bytes] = []
    room = _PIECE_BYTES
    for batch in _batches(parts):
        for (before, family, lines), numbers in zip(batch, _numbers(batch, state), strict=True):
            made.append(before)
            room -= len(before)
            texts, between = lines.texts, line_end + family.name
            line_bytes = len(between) + (len(texts[0]) if texts else 0) + _NUMBER_BYTES
            first = 0
            while first < len(texts):
                some = texts[first : first + max(0, room) // line_bytes + 1]
                joined = [between] * (3 * len(some) + 1)
                joined[0], joined[-1] = family.name, line_end
                joined[1::3] = some
                joined[2::3] = numbers[first : first + len(some)]
                first += len(some)
                room -= line_bytes * len(some)
                if room > 0:
                    made += joined
                else:
                    joined[0] = b"".join([*made, family.name])
                    yield b"".join(joined)
                    made, room = [], _PIECE_BYTES
        if not batch:
            yield b""
    if made:
        yield b"".join(made)


def _batches(parts: Iterable[Part | None]) -> Iterator[list[Part]]:
    """The same parts, so many at a time that they have up to some thousand lines; none for a pause."""
    batch: list[Part] = []
    count = 0
    for part in parts:
        if part is None:
            yield []
            continue
        before, family, lines = part
        for some in lines.at_most(_LINES_AT_ONCE):
            if batch and count + len(some.texts) > _LINES_AT_ONCE:
                yield batch
                batch, count = [], 0
            batch.append(Part(before, family, some))
            before = b""
            count += len(some.texts)
    if batch:
        yield batch


def _numbers(batch: Sequence[Part], state: State) -> list[list[bytes]]:
    """The numbers of each part, as text."""
    alike: dict[NumberFormat, list[int]] = {}
    for place, part in enumerate(batch):
        alike.setdefault(part.family.number, []).append(place)
    found: list[list[bytes]] = [[]] * len(batch)
    for number, places in alike.items():
        values = [batch[place].family.values(batch[place].lines, state) for place in places]
        texts = formatted(values[0] if len(values) == 1 else np.concatenate(values), number)
        first = 0
        for place, some in zip(places, values, strict=True):
            found[place] = texts[first : first + len(some)]
            first += len(some)
    return found

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

    def __init__(self, face: LabelCache[Group], groups: Sequence[Group], openmetrics: bool = False) -> None:
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
