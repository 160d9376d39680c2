"""Families and their lines to the bytes of a page.

What costs most on the page of one node is not its few numbers but the calls for each family, so numbers of all
families that are written in the same way are formatted together, and joined with their lines at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from fakedev.exposition.family import Family
from fakedev.exposition.identity import NumberFormat
from fakedev.exposition.lines import Lines
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
