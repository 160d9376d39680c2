"""Folders of traces in memory, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zope.interface import implementer

from fakedev.replay.table_reader import PLAIN, Column, JsonRecords, Lenience, TableForm, TableRows, TraceProblems
from fakedev.replay.trace import WHOLE_TRACE, IFolder, Window


@implementer(IFolder)
class MadeFolder:
    """A folder of texts, by the names of files."""

    def __init__(self, texts: Mapping[str, str], lenient: int = 0, window: Window = WHOLE_TRACE) -> None:
        self._texts = texts
        self.window = window
        self.lenience = Lenience(lenient)

    def has(self, name: str) -> bool:
        """Whether there is a table."""
        return name in self._texts

    def head(self, name: str) -> Sequence[str]:
        """The names in the first line of a file; none where there is no such file."""
        lines = self._texts.get(name, "").splitlines()
        return lines[0].split(",") if lines else []

    def table(self, name: str, columns: Sequence[Column], form: TableForm = PLAIN) -> TableRows:
        """The rows of a table.

        :raises TraceProblems: when there is none.
        """
        return TableRows(self._text(name).splitlines(keepends=True), name, columns, self.lenience, form)

    def records(self, name: str) -> JsonRecords:
        """The records of a file, which comes in parts of seven characters.

        :raises TraceProblems: when there is none.
        """
        text = self._text(name)
        parts = (text[begin : begin + 7] for begin in range(0, len(text), 7))
        return JsonRecords(parts, name, self.lenience)

    def _text(self, name: str) -> str:
        if name not in self._texts:
            raise TraceProblems([f"{name}: there is no such file"])
        return self._texts[name]
