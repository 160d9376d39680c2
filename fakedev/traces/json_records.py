"""Files with one JSON array of objects, read as a stream: one object at a time, with the line that it begins in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fakedev.traces.problems import FileProblems, Lenience

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
            self._pass_to(_end_of_space(self._text, self._used))
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


def _end_of_space(text: str, begin: int) -> int:
    found = _SPACE.match(text, begin)
    return begin if found is None else found.end()
