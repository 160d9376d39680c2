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
from fakedev.sim.state import State

#: Is passed on at once: before more work is done, others may have their turn.
PAUSE: Final = b""
#: Lines whose numbers are formatted together, about.
_LINES_AT_ONCE: Final = 4096
#: Size of a piece, about: what it is made of is still in the processor's cache when it is used.
_PIECE_BYTES: Final = 56 * 1024
#: What a number takes in a line, about.
_NUMBER_BYTES: Final = 12


class Rows(NamedTuple):
    """Rows of a family that follow each other: those of its lines from ``start`` to before ``end``."""

    family: Family
    lines: Lines
    start: int
    end: int


def rendered(parts: Iterable[bytes | tuple[Family, Lines]], state: State, line_end: bytes) -> Iterator[bytes]:
    """A page in pieces of about 56 KiB, and the pauses among its parts.

    :param parts: of the page, in their order: bytes as they are, or lines of a family, all of them present.
    :param line_end: what follows each number, the line feed included.
    """
    made: list[bytes] = []
    room = _PIECE_BYTES
    for batch in _batches(parts):
        numbers = iter(_numbers([part for part in batch if isinstance(part, Rows)], state))
        for part in batch:
            if isinstance(part, bytes):
                made.append(part)
                room -= len(part)
                continue
            family, lines, start, end = part
            texts, of_these = lines.texts[start:end], next(numbers)
            between = line_end + family.name
            line_bytes = len(between) + len(texts[0]) + _NUMBER_BYTES
            first = 0
            while first < len(texts):
                last = min(len(texts), first + max(0, room) // line_bytes + 1)
                joined = [between] * (3 * (last - first))
                joined[0] = family.name
                joined[1::3] = texts[first:last]
                joined[2::3] = of_these[first:last]
                made += joined
                made.append(line_end)
                room -= line_bytes * (last - first)
                first = last
                if room <= 0:
                    yield b"".join(made)
                    made, room = [], _PIECE_BYTES
        if not batch:
            yield PAUSE
    if made:
        yield b"".join(made)


def _batches(parts: Iterable[bytes | tuple[Family, Lines]]) -> Iterator[list[bytes | Rows]]:
    """The same parts, so many at a time that they have some thousand lines; an empty batch for each pause."""
    batch: list[bytes | Rows] = []
    count = 0
    for part in parts:
        if not part:
            yield []
        elif isinstance(part, bytes):
            batch.append(part)
        else:
            family, lines = part
            for start in range(0, len(lines.texts), _LINES_AT_ONCE):
                end = min(start + _LINES_AT_ONCE, len(lines.texts))
                batch.append(Rows(family, lines, start, end))
                count += end - start
                if count >= _LINES_AT_ONCE:
                    yield batch
                    batch, count = [], 0
    if batch:
        yield batch


def _numbers(rows: Sequence[Rows], state: State) -> list[list[bytes]]:
    """The numbers of each of some rows, as text."""
    alike: dict[NumberFormat, list[int]] = {}
    for place, (family, *_) in enumerate(rows):
        alike.setdefault(family.number, []).append(place)
    found: list[list[bytes]] = [[]] * len(rows)
    for number, places in alike.items():
        values = [family.values(lines, start, end, state) for family, lines, start, end in (rows[p] for p in places)]
        texts = formatted(values[0] if len(values) == 1 else np.concatenate(values), number)
        first = 0
        for place, some in zip(places, values, strict=True):
            found[place] = texts[first : first + len(some)]
            first += len(some)
    return found
