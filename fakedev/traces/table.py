"""Tables of traces: CSV with columns by name in any order, and problems with file, line and column."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fakedev.spec.errors import did_you_mean

#: The most problems that are told; the reading ends there.
MOST_PROBLEMS: Final = 20
#: Texts of numbers and times that stand for no value.
NO_VALUE: Final = ("", "NA", "N/A", "nan", "NaN", "None", "null", "NULL")
_LONGEST_FIELD: Final = 253
#: Whole numbers up to it are exact.
_LARGEST: Final = 1e15
#: More than any node has.
_MOST_DEVICES: Final = 1024


class TraceProblems(ValueError):
    """A table that cannot be used; ``str`` of it is a line for each problem."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


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


@dataclass
class Lenience:
    """How many lines with a problem may be left out, of all tables together.

    :ivar left_out: the problems of the lines that were.
    """

    most: int = 0
    left_out: list[str] = field(default_factory=list)

    def takes(self, problem: str) -> bool:
        """Whether one more line may be left out."""
        if len(self.left_out) >= self.most:
            return False
        self.left_out.append(problem)
        return True


class TableRows:
    """The rows of a table: iterate over it once.

    :param lines: of the file, decoded; UnicodeDecodeError becomes a problem.
    :param shown: how problems name the file.
    :raises TraceProblems: while it is iterated, when lines cannot be used and lenience is over.
    """

    def __init__(self, lines: Iterable[str], shown: str, columns: Sequence[Column], lenience: Lenience) -> None:
        self._lines = lines
        self._shown = shown
        self._columns = columns
        self._lenience = lenience
        self._line = 0
        self._problems: list[str] = []

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        reader = csv.reader(self._lines, strict=True)
        try:
            yield from self._rows(reader)
        except csv.Error as error:
            self._problems.append(f"{self._shown}:{reader.line_num or 1}: is not CSV: {error}")
        except UnicodeDecodeError:
            self._problems.append(f"{self._shown}:{reader.line_num + 1}: is not UTF-8")
        if self._problems:
            raise TraceProblems(self._problems)

    def refuse(self, column: str, reason: str) -> None:
        """Note that the row that was given last cannot be used.

        :raises TraceProblems: when there are too many.
        """
        self._note(f"{self._shown}:{self._line}: column {column}: {reason}")

    def _rows(self, reader: Any) -> Iterator[Mapping[str, Any]]:
        head = [name.strip().removeprefix("\ufeff") for name in next(reader, [])]
        self._problems += [f"{self._shown}:1: {each}" for each in _wrong_head(head, self._columns)]
        if self._problems:
            raise TraceProblems(self._problems)
        places = [(each, head.index(each.name)) for each in self._columns if each.name in head]
        absent = {each.name: each.default for each in self._columns if each.name not in head}
        for fields in reader:
            if not fields:
                continue
            self._line = reader.line_num
            if len(fields) != len(head):
                self._note(f"{self._shown}:{self._line}: has {len(fields)} values: the first line has {len(head)}")
                continue
            row = self._row(fields, places)
            if row is not None:
                yield row | absent

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

    def _note(self, problem: str) -> None:
        if self._lenience.takes(problem):
            return
        self._problems.append(problem)
        if len(self._problems) >= MOST_PROBLEMS:
            raise TraceProblems([*self._problems, f"{self._shown}: further lines were not read"])


def _wrong_head(head: Sequence[str], columns: Sequence[Column]) -> Iterator[str]:
    names = [each.name for each in columns]
    if not head:
        yield f"is empty: the first line names the columns, as {','.join(names)}"
        return
    for name in [each for each, count in Counter(head).items() if count > 1][:MOST_PROBLEMS]:
        yield f"has the column {name[:60]!r} twice"
    short = [each[:_LONGEST_FIELD] for each in head]
    for column in columns:
        if column.is_required and column.name not in head:
            yield f"has no column {column.name!r}{did_you_mean(column.name, short, '')}"


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


def device_count(text: str) -> int:
    """How many devices a node or a job has."""
    count = whole_number(text)
    if count > _MOST_DEVICES:
        raise ValueError(f"{count} is more than the devices of any node: at most {_MOST_DEVICES}")
    return count


def word(text: str) -> str:
    """A short text on one line."""
    if not text.isprintable():
        raise ValueError(f"{text[:40]!r} must have no characters that cannot be printed")
    return text
