"""Renders pages: the families of an identity over groups of entities, with cached labels and the numbers of a tick.

Label texts and the order of lines stay from tick to tick; the numbers, and the presence of lines, are from one State,
which never changes. Updating texts and rendering are done in pieces, so that a large page does not block the reactor.

On the page of one node the calls for each family cost more than its few numbers. So the numbers of all families with
the same format are formatted together, and joined with their lines at once.

All pages that show the entities of a source share the families and label texts of an identity. Label texts are cached
per group and rendered again only when a label of the group has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.base.groups import grouped
from fakedev.exporters.family import NO_LINES, Family, GroupTexts, Labelled, Lines, RowKinds
from fakedev.exporters.identity import FamilySpec, Identity, LabelSpec, PageLayout, RowSpec
from fakedev.exporters.labels import Labels, Template, signature
from fakedev.exporters.numbers import formatted, number_of
from fakedev.exporters.row_levels import FOLLOW_FROM, PAGE, PAGE_QUANTITIES, POD, WORK_LEVELS
from fakedev.exporters.sources import ISource
from fakedev.exporters.wandering import Wander
from fakedev.fleet.entities.state import State
from fakedev.fleet.spec.limits import entity_key
from fakedev.fleet.tallies import XID_LEVEL

Group = TypeVar("Group")


class LabelCache(Generic[Group]):
    """Families and label texts of an identity over the groups of a source.

    :param previous: the cache before a reload: its families and valid texts are reused if the identity is the same.
    """

    def __init__(self, identity: Identity, source: ISource, previous: LabelCache[Group] | None = None) -> None:
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
        levels = {level.partition("/")[0] for level in own}
        self._has_page_levels = bool({*PAGE_QUANTITIES, *WORK_LEVELS} & levels or FOLLOW_FROM.keys() & named)
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
        entities = {(row.level, row.drivers, row.only, row.excepted) for row in family.rows}
        return RowKinds(numbers, len(entities) == 1 and not self.identity.sort_rows, levels == {PAGE})

    def texts(self, group: Group) -> GroupTexts:
        """The current label texts of a group: the same object as long as no label changes."""
        version = self._source.version(group)
        cached = self._cached.get(group) or self._carried_over(group)
        if cached is not None and cached[0] == version:
            self._cached[group] = cached
            return cached[1]
        of_level = {level: self._of_level(level, group) for level in self._labels}
        texts = [next(of_level[kind.level]) for kind in self._kinds]
        if self.identity.sort_rows:
            texts = _sorted_rows(texts)
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
            replace(text, positions=text.positions + by)
            for text, by in zip(texts, shifts, strict=True)
            if by is not None
        ]
        return (version, carried) if len(carried) == len(texts) else None

    def _of_level(self, level: str, group: Group) -> Iterator[Labelled]:
        """The entities of a level with their texts, for each of its kinds of rows."""
        every = list(self._source.entities(level, group))
        labelled = [(*entity, self._labels[level].texts(entity[1])) for entity in every]
        for number, (shown, row) in enumerate(self._shown[level]):
            chosen = [place for place, entity in enumerate(labelled) if row.is_of(entity[1])] if row.is_of_some else []
            entities = [labelled[place] for place in chosen] if row.is_of_some else labelled
            positions = np.array([position for position, _, _ in entities], dtype=np.int64)
            texts = tuple([f"{{{own[number]}}} ".encode() if own[number] else b" " for _, _, own in entities])
            numbers = None if shown is None else np.array([number_of(shown.value(facts)) for _, facts, _ in entities])
            if row.random is not None:
                numbers = np.array([_random_key(self._source.seed, facts, row.labels) for _, facts, _ in entities])
            owners = np.array(chosen, dtype=np.int64) if row.is_of_some else None
            if level.partition("/")[0] == XID_LEVEL:
                owners = np.array([int(facts["index"]) for _, facts, _ in entities], dtype=np.int64)
            if level.partition("/")[0] == POD or level in _BARE:
                units = dict.fromkeys(_unit(facts) for _, facts in self._source.entities("unit/bare", group))
                ranks = {unit: rank for rank, unit in enumerate(units)}
                owners = np.array([ranks[_unit(facts)] for _, facts, _ in entities], dtype=np.int64)
            yield Labelled(positions, texts, numbers, owners)


def _unit(facts: Mapping[str, str]) -> tuple[str, str]:
    """What distinguishes a device or an instance from the others of its node."""
    return facts["index"], facts.get("mig_id", "")


def _sorted_rows(kinds: Sequence[Labelled]) -> list[Labelled]:
    """The rows of each kind in the order of their labels, with their places among those of all kinds."""
    signatures = [[signature(text.decode()) for text in kind.texts] for kind in kinds]
    # As Go compares texts: byte by byte.
    every = sorted({each for of_kind in signatures for each in of_kind}, key=str.encode)
    places = {each: place for place, each in enumerate(every)}
    found = []
    for kind, of_kind in zip(kinds, signatures, strict=True):
        ranks = np.array([places[each] for each in of_kind], dtype=np.int64)
        order = np.argsort(ranks, kind="stable")
        found.append(
            Labelled(
                kind.positions[order], tuple([kind.texts[place] for place in order.tolist()]),
                None if kind.numbers is None else kind.numbers[order], ranks[order],
            )
        )  # fmt: skip
    return found


def _kind_of(row: RowSpec) -> RowSpec:
    """What a row has in common with others of its kind: its level, labels and fact, and who may have it."""
    return RowSpec(
        "", "same", row.labels, row.level, fact=row.fact, drivers=row.drivers, only=row.only, excepted=row.excepted,
        random=row.random and _ANY,
    )  # fmt: skip


#: Random rows are of one kind.
_ANY: Final = Wander((0.0,))


def _random_key(seed: int, facts: Mapping[str, str], labels: Iterable[LabelSpec]) -> float:
    """The key of an entity with the labels of a row, as a number that is whole and exact.

    What is cumulative over a label stays so: all series with this label have one key.
    """
    of_row = [label.value for label in labels if label.name not in ("le", "quantile")]
    names = [facts.get(name, "") for name in ("node", "index", "mig_id")]
    return float(entity_key("/".join([str(seed), *names, *of_row])) >> 11)


#: Levels of devices and instances next to whose rows those of their containers are listed.
_BARE: Final = ("unit/bare", "whole/bare")
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
#: Lines of a family from which on a pause follows it: finding its present lines takes long enough.
_MANY_LINES: Final = 4096


class PagePart(NamedTuple):
    """A part of a page: some bytes, then present lines of a family."""

    before: bytes
    family: Family
    lines: Lines


def rendered(parts: Iterable[PagePart | None], state: State, line_end: bytes) -> Iterator[bytes]:
    """A page in pieces of about 56 KiB, with an empty one for each pause.

    :param parts: in the order of the page; None for a pause.
    :param line_end: the text after each number, with the line feed; numbers of the page as a whole have no time.
    """
    pieces: list[bytes] = []
    room = _PIECE_BYTES
    for batch in _batches(parts):
        for (before, family, lines), numbers in zip(batch, _numbers(batch, state), strict=True):
            pieces.append(before)
            room -= len(before)
            end = b"\n" if family.kinds.are_of_page else line_end
            texts, between = lines.texts, end + family.name
            line_bytes = len(between) + (len(texts[0]) if texts else 0) + _NUMBER_BYTES
            first = 0
            while first < len(texts):
                some = texts[first : first + max(0, room) // line_bytes + 1]
                joined = [between] * (3 * len(some) + 1)
                joined[0], joined[-1] = family.name, end
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


def _batches(parts: Iterable[PagePart | None]) -> Iterator[list[PagePart]]:
    """The same parts in batches of at most _LINES_AT_ONCE lines; an empty batch for a pause."""
    batch: list[PagePart] = []
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
            batch.append(PagePart(before, family, some))
            before = b""
            count += len(some.texts)
    if batch:
        yield batch


def _numbers(batch: Sequence[PagePart], state: State) -> list[list[bytes]]:
    alike = grouped((part.family.number, place) for place, part in enumerate(batch))
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
        self._sorts = cache.identity.layout is PageLayout.DECLARATIONS_FIRST
        self._families = cache.families(openmetrics)
        self._groups: Sequence[Group] = ()
        self._texts: list[GroupTexts | None] = []
        self._next = 0
        #: Groups that have not been looked at since the last change.
        self._left = 0
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
        self._left = len(self._groups)
        return self._compile(self._left)

    def _compile(self, most: int) -> bool:
        """Look at up to this number of the remaining groups, then make the lines."""
        updated = 0
        for _ in range(min(most, self._left)):
            self._left -= 1
            place, self._next = self._next, (self._next + 1) % len(self._groups)
            texts = self._cache.texts(self._groups[place])
            if texts is not self._texts[place]:
                self._texts[place] = texts
                self._made[place // GROUPS_AT_ONCE].clear()
                self._forget_lines()
                updated += sum(len(text.texts) for text in texts)
                if updated >= _TEXTS_AT_ONCE:
                    return False
        if self._left:
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
        return count < _TEXTS_AT_ONCE  # to join them all takes long enough for a call of its own

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

    def _parts(self, by_family: list[tuple[Family, Lines]], state: State) -> Iterator[PagePart | None]:
        """The declarations and the present lines, in the order of the page."""
        later: list[PagePart] = []
        for family, lines in by_family:
            is_long = len(lines.texts) >= _MANY_LINES
            if is_long and lines.rows is not None:
                _ = lines.places_of_rows  # found once: a step of its own
                yield None
            present = family.present(lines, state)
            if is_long:
                yield None
            if not present.texts:
                continue
            if self._sorts:
                yield PagePart(family.header, family, NO_LINES)
                later.append(PagePart(b"", family, present))
            else:
                yield PagePart(family.header, family, present)
        yield from sorted(later, key=_first_line)

    def _line_end(self, state: State) -> bytes:
        if not self.identity.timestamps:
            return b"\n"
        milliseconds = round(state.wall_seconds * 1000)
        return b" %d.%03d\n" % divmod(milliseconds, 1000) if self._openmetrics else b" %d\n" % milliseconds


def _first_line(part: PagePart) -> bytes:
    return part.family.name + part.lines.texts[0]
