"""Tables of traces: CSV, gzip or not, with columns by name in any order; a problem has file, line and column."""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from fakedev.spec.errors import did_you_mean

#: A larger table, unpacked, is refused: it is held in memory.
MAX_BYTES: Final = 512 * 2**20
#: A node has no more devices; configurations have this limit, too.
MAX_DEVICES: Final = 1024
#: So many problems are reported one by one.
_SHOWN: Final = 20
_GZIP_MAGIC: Final = b"\x1f\x8b"
#: What a field without a value has, beside nothing at all.
_MISSING: Final = frozenset(("", "NA", "NaN", "nan", "None", "null"))


class BadTrace(Exception):
    """A trace that cannot be used; ``str`` of it has a line for each problem."""


@dataclass(frozen=True)
class Column:
    """A column that a table must have.

    :ivar read: turns the text of a field into a value; raises ValueError.
    :ivar may_be_missing: whether the column, or a field of it, may be empty or ``NA``: the value is then None.
    """

    name: str
    read: Callable[[str], Any]
    may_be_missing: bool = False


class Row(NamedTuple):
    """A row of a table: its values by the names of the columns, and the line on which it ends."""

    line: int
    values: dict[str, Any]


class Problems:
    """Collects the problems of a trace.

    :param lenient: so many wrong rows are left out; one more, and the trace is refused.
    :ivar rows: how many wrong rows were left out.
    """

    def __init__(self, lenient: int = 0) -> None:
        self._lenient = lenient
        self._lines: list[str] = []
        self.rows = 0

    def add(self, file: str, line: int, column: str, reason: str) -> None:
        """Note a wrong row."""
        self.rows += 1
        if len(self._lines) < _SHOWN:
            where = f"{column}: " if column else ""
            self._lines.append(f"{file}:{line}: {where}{reason}")

    def refuse(self, file: str, line: int, reason: str) -> BadTrace:
        """The error for a table that cannot be read at all."""
        return BadTrace("\n".join([*self._lines, f"{file}:{line}: {reason}"]))

    def raise_if_too_many(self) -> None:
        """Raise what was noted, if that is more than may be left out.

        :raises BadTrace: with each of the first problems.
        """
        if self.rows <= self._lenient:
            return
        more = [f"and {self.rows - _SHOWN} more"] if self.rows > _SHOWN else []
        advice = f"--lenient {self.rows} leaves these rows out"
        raise BadTrace("\n".join([*self._lines, *more, advice]))


def read_table(content: bytes, file: str, columns: Sequence[Column], problems: Problems) -> Iterator[Row]:
    """The rows of a table; wrong ones are noted and left out. Columns that nobody asked for are ignored.

    :param file: how problems name it.
    :raises BadTrace: for what is no table, or lacks a column.
    """
    reader = csv.reader(io.StringIO(_text(content, file, problems), newline=""), strict=True)
    try:
        titles = [title.strip() for title in next(reader, [])]
        places = _places(titles, file, columns, problems)
        for fields in reader:
            if not fields:
                continue
            if len(fields) != len(titles):
                reason = f"has {len(fields)} values, and the first line {len(titles)} columns"
                problems.add(file, reader.line_num, "", reason)
                continue
            values = _values(fields, places, file, reader.line_num, problems)
            if values is not None:
                yield Row(reader.line_num, values)
    except csv.Error as error:
        raise problems.refuse(file, reader.line_num, f"is not CSV: {error}") from None


def number(text: str) -> float:
    """A number of 0 or more.

    :raises ValueError: for anything else.
    """
    try:
        found = float(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no number") from None
    if not math.isfinite(found) or found < 0:
        raise ValueError(f"{text[:40]!r} must be 0 or more")
    return found


def count_of_devices(text: str) -> int:
    """A whole number of 0 or more, within what a node may have; ``2.0`` is one.

    :raises ValueError: for anything else.
    """
    found = number(text)
    if not found.is_integer():
        raise ValueError(f"{text[:40]!r} is no whole number")
    if found > MAX_DEVICES:
        raise ValueError(f"{text[:40]!r} is more than {MAX_DEVICES} devices of a node")
    return int(found)


def name(text: str) -> str:
    """A name of at most 90 characters, all of them visible.

    :raises ValueError: for another one.
    """
    if not text.isprintable() or len(text) > 90:
        raise ValueError(f"{text[:40]!r} is no name: at most 90 visible characters")
    return text


def _text(content: bytes, file: str, problems: Problems) -> str:
    if content.startswith(_GZIP_MAGIC):
        try:
            content = gzip.GzipFile(fileobj=io.BytesIO(content)).read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise problems.refuse(file, 1, f"cannot be unpacked: {error}") from None
    if len(content) > MAX_BYTES:
        raise problems.refuse(file, 1, f"is larger than {MAX_BYTES // 2**20} MiB: cut the trace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise problems.refuse(file, line, "is not UTF-8") from None


def _places(
    titles: Sequence[str], file: str, columns: Sequence[Column], problems: Problems
) -> list[tuple[int, Column]]:
    places = []
    for column in columns:
        count = titles.count(column.name)
        if count > 1:
            raise problems.refuse(file, 1, f"has the column {column.name!r} {count} times")
        if count:
            places.append((titles.index(column.name), column))
        elif not column.may_be_missing:
            known = did_you_mean(column.name, titles, f"; there are {', '.join(titles)[:200] or 'none'}")
            raise problems.refuse(file, 1, f"has no column {column.name!r}{known}")
    return places


def _values(
    fields: Sequence[str], places: Sequence[tuple[int, Column]], file: str, line: int, problems: Problems
) -> dict[str, Any] | None:
    values: dict[str, Any] = {}
    for place, column in places:
        text = fields[place].strip()
        try:
            if text not in _MISSING:
                values[column.name] = column.read(text)
            elif column.may_be_missing:
                values[column.name] = None
            else:
                raise ValueError("is missing")
        except ValueError as error:
            problems.add(file, line, column.name, str(error))
            return None
    return values
