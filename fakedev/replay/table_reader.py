"""Tables of traces: CSV and JSON records as streams, and problems with file, line and column.

CSV has columns by name in any order. A file with one JSON array of objects is read one object at a time, with the
line that the object begins in. Problems of the files are reported together; some lines may be left out.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fakedev.base.errors import did_you_mean

#: The most problems that are told; the reading ends there.
MOST_PROBLEMS: Final = 20


class TraceProblems(ValueError):
    """A file that cannot be used; ``str`` of it is a line for each problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass
class Lenience:
    """How many lines with a problem may be left out, of all files together.

    :ivar left_out: the problems of the lines that were.
    """

    most: int = 0
    left_out: list[str] = field(default_factory=list)


class FileProblems:
    """The problems of one file.

    :param shown: how they name the file.
    """

    def __init__(self, shown: str, lenience: Lenience) -> None:
        self.shown = shown
        self._lenience = lenience
        self._found: list[str] = []

    def add(self, line: int, text: str) -> None:
        """Note what makes the file useless."""
        self._found.append(f"{self.shown}:{line}: {text}")

    def note(self, line: int, text: str) -> None:
        """Note what makes a line useless, unless it may be left out.

        :raises TraceProblems: when there are too many.
        """
        if len(self._lenience.left_out) < self._lenience.most:
            self._lenience.left_out.append(f"{self.shown}:{line}: {text}")
            return
        self.add(line, text)
        if len(self._found) >= MOST_PROBLEMS:
            raise TraceProblems([*self._found, f"{self.shown}: further lines were not read"])

    def end(self) -> None:
        """Nothing more is read.

        :raises TraceProblems: when there are any.
        """
        if self._found:
            raise TraceProblems(self._found)


#: Texts of numbers and times that stand for no value.
NO_VALUE: Final = ("", "NA", "N/A", "nan", "NaN", "None", "null", "NULL")
_LONGEST_FIELD: Final = 253
#: Whole numbers up to it are exact.
_LARGEST: Final = 1e15
#: More than any node has.
_MOST_DEVICES: Final = 1024


@dataclass(frozen=True)
class Column:
    """A column of a table.

    :ivar read: the value of a text; raises ValueError.
    :ivar default: the value of a field without a value (NO_VALUE), and of a column that is not there.
    :ivar is_required: there must be the column, and a value in each line.
    """

    name: str
    read: Callable[[str], Any]
    default: Any = None
    is_required: bool = False


@dataclass(frozen=True)
class TableForm:
    """How a table is written, where it is not as most are.

    :ivar head: the names of its columns, where its first line has none.
    :ivar is_padded: empty fields at the end of a line are as if they were not there, and those that lack are empty.
    :ivar only: a column and what its text must be like: other lines are passed over, unread.
    """

    head: Sequence[str] = ()
    is_padded: bool = False
    only: tuple[str, Callable[[str], bool]] | None = None


#: As most are: the names of the columns, then a line for each row.
PLAIN: Final = TableForm()


class TableRows:
    """The rows of a table: iterate over it once.

    :param lines: of the file, decoded; UnicodeDecodeError becomes a problem.
    :param shown: how problems name the file.
    :param form: how it is written.
    :raises TraceProblems: while it is iterated, when lines cannot be used and lenience is over.
    """

    def __init__(
        self, lines: Iterable[str], shown: str, columns: Sequence[Column], lenience: Lenience, form: TableForm = PLAIN
    ) -> None:
        self._lines = lines
        self._form = form
        self._columns = columns
        self._line = 0
        self._problems = FileProblems(shown, lenience)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        reader = csv.reader(self._lines, strict=True)
        try:
            yield from self._rows(reader)
        except csv.Error as error:
            self._problems.add(reader.line_num or 1, f"is not CSV: {error}")
        except UnicodeDecodeError:
            self._problems.add(reader.line_num + 1, "is not UTF-8")
        self._problems.end()

    def refuse(self, column: str, reason: str) -> None:
        """Note that the row that was given last cannot be used.

        :raises TraceProblems: when there are too many.
        """
        self._problems.note(self._line, f"column {column}: {reason}")

    def _rows(self, reader: Any) -> Iterator[Mapping[str, Any]]:
        form = self._form
        head = list(form.head) or [name.strip().removeprefix("\ufeff") for name in next(reader, [])]
        if form.is_padded:
            head = _unpadded(head)
        for problem in _wrong_head(head, self._columns):
            self._problems.add(1, problem)
        self._problems.end()
        places = [(column, head.index(column.name)) for column in self._columns if column.name in head]
        absent = {column.name: column.default for column in self._columns if column.name not in head}
        for fields in self._kept(reader, head):
            if len(fields) != len(head):
                what = "the number of columns is" if form.head else "the first line has"
                self._problems.note(self._line, f"has {len(fields)} values: {what} {len(head)}")
                continue
            row = self._row(fields, places)
            if row is not None:
                yield row | absent

    def _kept(self, reader: Any, head: Sequence[str]) -> Iterator[list[str]]:
        """The lines that are not passed over, each with its number noted."""
        name, is_kept = self._form.only or ("", bool)
        place = head.index(name) if name in head else -1
        for fields in reader:
            if not fields or (0 <= place < len(fields) and not is_kept(fields[place])):
                continue
            self._line = reader.line_num
            if self._form.is_padded:
                found = _unpadded(fields)
                yield found + [""] * (len(head) - len(found))
            else:
                yield fields

    def _row(self, fields: Sequence[str], places: Iterable[tuple[Column, int]]) -> dict[str, Any] | None:
        row: dict[str, Any] = {}
        for column, place in places:
            text = fields[place].strip()
            try:
                if len(text) > _LONGEST_FIELD:
                    raise ValueError(f"is longer than {_LONGEST_FIELD} characters")
                if text in NO_VALUE:
                    if column.is_required:
                        raise ValueError(f"{text!r} is no value, and there must be one")
                    row[column.name] = column.default
                else:
                    row[column.name] = column.read(text)
            except ValueError as error:
                self.refuse(column.name, str(error))
                return None
        return row


def _unpadded(fields: list[str]) -> list[str]:
    """Some fields without the empty ones at their end."""
    count = len(fields)
    while count and not fields[count - 1].strip():
        count -= 1
    return fields[:count]


def _wrong_head(head: Sequence[str], columns: Sequence[Column]) -> Iterator[str]:
    names = [column.name for column in columns]
    if not head:
        yield f"is empty: the first line names the columns, as {','.join(names)}"
        return
    twice = [column for column, count in Counter(head).items() if count > 1]
    yield from (f"has the column {name[:60]!r} twice" for name in twice[:MOST_PROBLEMS])
    short = [column[:_LONGEST_FIELD] for column in head]
    missing = (column.name for column in columns if column.is_required and column.name not in head)
    yield from (f"has no column {name!r}{did_you_mean(name, short, '')}" for name in missing)


def number(text: str) -> float:
    """A number that is not negative, and of which tenths are exact."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no number") from None
    if not 0 <= value <= _LARGEST:
        raise ValueError(f"{text[:40]!r} must be a number from 0 to {_LARGEST:g}")
    return value


def whole_number(text: str) -> int:
    """A whole number that is not negative; ``2.0`` is one."""
    value = number(text)
    if value != int(value):
        raise ValueError(f"{text[:40]!r} must be a whole number")
    return int(value)


def percent(text: str) -> float:
    """A number of percent, 0 to 100."""
    value = number(text)
    if value > 100.0:
        raise ValueError(f"{text[:40]!r} is above 100 percent")
    return value


def device_count(text: str) -> int:
    """How many devices a node or a job has."""
    count = whole_number(text)
    if count > _MOST_DEVICES:
        raise ValueError(f"{count} is more than the devices of any node: at most {_MOST_DEVICES}")
    return count


def count_of(what: str, most: int) -> Callable[[str], int]:
    """What reads a number of things, 1 or more."""

    def read(text: str) -> int:
        count = whole_number(text)
        if not 1 <= count <= most:
            raise ValueError(f"{count} is no number of {what}: 1 to {most}")
        return count

    return read


def word(text: str) -> str:
    """A short text on one line."""
    if not text.isprintable():
        raise ValueError(f"{text[:40]!r} must have no characters that cannot be printed")
    return text


#: A longer record is none of a trace; it is not read to its end.
_LONGEST_RECORD: Final = 4_000_000
#: What JSON may have between two values.
_SPACE: Final = re.compile(r"[ \t\r\n]*+")


class JsonRecords:
    """The records of a file: iterate over it once.

    :param parts: of the file's text, decoded, of any lengths; UnicodeDecodeError becomes a problem.
    :param shown: how problems name the file.
    :raises TraceProblems: while it is iterated, when records cannot be used and lenience is over.
    """

    def __init__(self, parts: Iterable[str], shown: str, lenience: Lenience) -> None:
        self._parts = iter(parts)
        self._problems = FileProblems(shown, lenience)
        self._decoder = json.JSONDecoder()
        #: What was read last; up to here it was used, and this is the line of the next character.
        self._text = ""
        self._used = 0
        self._line = 1

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        try:
            yield from self._records()
        except json.JSONDecodeError as error:
            line = self._line + self._text.count("\n", self._used, error.pos)
            self._problems.add(line, f"is not JSON: {error.msg}")
        except UnicodeDecodeError:
            self._problems.add(self._line, "is not UTF-8, here or after it")
        except RecursionError:
            self._problems.add(self._line, "has too many brackets inside of each other")
        self._problems.end()

    def refuse(self, column: str, reason: str) -> None:
        """Note that the record that was given last cannot be used.

        :raises TraceProblems: when there are too many.
        """
        self._problems.note(self._line, f"{column}: {reason}")

    def _records(self) -> Iterator[Mapping[str, Any]]:
        self._take("[", "an array of objects is needed, which begins with '['")
        has_more = self._next() != "]"
        while has_more:
            record, end = self._decoded()
            if isinstance(record, Mapping):
                yield record
            else:
                self.refuse("record", "is no object")
            self._pass_to(end)
            has_more = self._next() != "]"
            if has_more:
                self._take(",", "a comma or ']' is needed after an object")
        self._used += 1
        if self._next():
            raise json.JSONDecodeError("nothing may come after the array", self._text, self._used)

    def _take(self, character: str, message: str) -> None:
        if self._next() != character:
            raise json.JSONDecodeError(message, self._text, self._used)
        self._used += 1

    def _decoded(self) -> tuple[object, int]:
        """The value that comes next, and where it ends."""
        self._next()
        while True:
            try:
                return self._decoder.raw_decode(self._text, self._used)
            except json.JSONDecodeError:
                length = len(self._text) - self._used
                if length > _LONGEST_RECORD or not self._read(max(length, 1)):
                    raise
            except ValueError:
                # Python reads no whole numbers of thousands of digits.
                raise json.JSONDecodeError("a number has too many digits", self._text, self._used) from None

    def _next(self) -> str:
        """The next character that is no space; empty at the end."""
        while True:
            space = _SPACE.match(self._text, self._used)
            self._pass_to(space.end() if space else self._used)
            if self._used < len(self._text) or not self._read(1):
                return self._text[self._used : self._used + 1]

    def _read(self, more: int) -> bool:
        """Read some characters more, if there are any, and forget what was used."""
        parts = [self._text[self._used :]]
        self._used = 0
        while more > 0 and (part := next(self._parts, "")):
            parts.append(part)
            more -= len(part)
        self._text = "".join(parts)
        return len(parts) > 1

    def _pass_to(self, end: int) -> None:
        self._line += self._text.count("\n", self._used, end)
        self._used = end

