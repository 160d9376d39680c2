"""Pages: the families of an identity over some groups of entities, with the numbers of a tick.

Label texts (:mod:`fakedev.exposition.label_cache`) and the order of lines stay from tick to tick; the numbers, and
the presence of lines, are those of one State, which never changes. Updating texts and rendering are done in pieces,
so that a large page does not block the reactor.

On the page of one node the calls for each family cost more than its few numbers. So the numbers of all families with
the same format are formatted together, and joined with their lines at once.
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

Group = TypeVar("Group")

#: How many lines have their numbers formatted together at most.
_LINES_AT_ONCE: Final = 4096
#: Approximate size of a piece: its parts are still in the processor's cache when they are joined.
_PIECE_BYTES: Final = 56 * 1024
#: Approximate length of a number in a line.
_NUMBER_BYTES: Final = 12
#: How many label texts are updated before a pause, rounded up to whole groups: some milliseconds of work.
_TEXTS_AT_ONCE: Final = 512
#: Groups whose lines are made together, and kept until a label of one of them changes.
GROUPS_AT_ONCE: Final = 64
#: How many lines are made before a pause, rounded up to GROUPS_AT_ONCE: some milliseconds of work.
_LINES_MADE_AT_ONCE: Final = 8192
#: A family with so many lines is followed by a pause: finding its present lines takes long enough.
_MANY_LINES: Final = 4096


class Part(NamedTuple):
    """A part of a page: some bytes, then present lines of a family."""

    before: bytes
    family: Family
    lines: Lines


def rendered(parts: Iterable[Part | None], state: State, line_end: bytes) -> Iterator[bytes]:
    """A page in pieces of about 56 KiB, with an empty one for each pause.

    :param parts: in the order of the page; None for a pause.
    :param line_end: the text after each number, with the line feed.
    """
    pieces: list[bytes] = []
    room = _PIECE_BYTES
    for batch in _batches(parts):
        for (before, family, lines), numbers in zip(batch, _numbers(batch, state), strict=True):
            pieces.append(before)
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
                    pieces += joined
                else:
                    joined[0] = b"".join([*pieces, family.name])
                    yield b"".join(joined)
                    pieces, room = [], _PIECE_BYTES
        if not batch:
            yield b""
    if pieces:
        yield b"".join(pieces)


def _batches(parts: Iterable[Part | None]) -> Iterator[list[Part]]:
    """The same parts in batches of at most _LINES_AT_ONCE lines; an empty batch for a pause."""
    batch: list[Part] = []
    count = 0
    for part in parts:
        if part is None:
            yield []
            continue
        before, family, lines = part
        for some in lines.batches(_LINES_AT_ONCE):
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


class Page(Generic[Group]):
    """One page over some groups.

    :param groups: the groups whose entities it shows, in order.
    :param openmetrics: as OpenMetrics, without its ``# EOF``, instead of text 0.0.4.
    """

    def __init__(self, cache: LabelCache[Group], groups: Sequence[Group], openmetrics: bool = False) -> None:
        self.identity = cache.identity
        self._cache = cache
        self._openmetrics = openmetrics
        self._sorts = cache.identity.layout is Layout.DECLARATIONS_FIRST
        self._families = cache.families(openmetrics)
        self._groups: Sequence[Group] = ()
        self._texts: list[GroupTexts | None] = []
        self._next = 0
        #: The lines of each GROUPS_AT_ONCE groups, as far as they are made.
        self._made: list[dict[RowKinds, Lines]] = []
        self._lines: dict[RowKinds, Lines] = {}
        #: Lines that are not in order yet, and those of them whose order is known.
        self._unsorted: dict[RowKinds, Lines] = {}
        self._sorted: set[RowKinds] = set()
        #: The last order of sorted lines.
        self._orders: dict[RowKinds, NDArray[np.int64]] = {}
        self.regroup(groups)

    def regroup(self, groups: Sequence[Group]) -> None:
        """Change the groups."""
        if groups != self._groups:
            self._groups = groups
            self._texts = [None] * len(groups)
            self._made = [{} for _ in range(0, len(groups), GROUPS_AT_ONCE)]
            self._next = 0
            self._forget_lines()

    def compile(self) -> bool:
        """Update some of the texts with the current labels.

        :returns: whether all are up to date; otherwise call again.
        """
        updated = 0
        for _ in self._groups:
            place, self._next = self._next, (self._next + 1) % len(self._groups)
            texts = self._cache.texts(self._groups[place])
            if texts is not self._texts[place]:
                self._texts[place] = texts
                self._made[place // GROUPS_AT_ONCE].clear()
                self._forget_lines()
                updated += sum(len(each.texts) for each in texts)
                if updated >= _TEXTS_AT_ONCE:
                    return False
        for family in self._families:
            if family.kinds not in self._lines:
                self._make_lines(family.kinds)
                return False
        return True

    def _make_lines(self, kinds: RowKinds) -> None:
        """Make the lines of families with some kinds of rows; many lines, and sorted lines, take several calls."""
        if kinds not in self._unsorted:
            if not self._made_of_all_groups(kinds):
                return
            lines = Lines.joined([made[kinds] for made in self._made])
            if kinds.are_of_page:
                lines = lines.batches(len(kinds.numbers))[0]
            (self._unsorted if self._sorts else self._lines)[kinds] = lines
        elif kinds not in self._sorted:
            self._orders[kinds] = self._unsorted[kinds].order(self._orders.get(kinds))
            self._sorted.add(kinds)
        else:
            self._lines[kinds] = self._unsorted.pop(kinds).in_order(self._orders[kinds])

    def _made_of_all_groups(self, kinds: RowKinds) -> bool:
        """Make some lines of the groups whose labels have changed; return whether those of all groups are made."""
        count = 0
        for place, made in enumerate(self._made):
            if count >= _LINES_MADE_AT_ONCE:
                return False
            if kinds not in made:
                some = self._texts[place * GROUPS_AT_ONCE : (place + 1) * GROUPS_AT_ONCE]
                made[kinds] = Lines.of([texts for texts in some if texts is not None], kinds)
                count += len(made[kinds].texts)
        return True

    def _forget_lines(self) -> None:
        self._lines, self._unsorted, self._sorted = {}, {}, set()

    def slices(self, state: State) -> Iterator[bytes]:
        """The page of a state in pieces, some of them empty. The texts must be up to date.

        The labels are those at the time of the call.
        """
        by_family = [(family, self._lines[family.kinds]) for family in self._families]
        state = self._cache.completed(state)
        return rendered(self._parts(by_family, state), state, self._line_end(state))

    def render(self, state: State) -> bytes:
        """The whole page at once."""
        while not self.compile():
            pass
        return b"".join(self.slices(state))

    def _parts(self, by_family: list[tuple[Family, Lines]], state: State) -> Iterator[Part | None]:
        """The declarations and the present lines, in the order of the page."""
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
