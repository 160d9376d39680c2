"""Folders of traces in memory, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fakedev.traces.table import Column, Lenience, TableRows, TraceProblems


class MadeFolder:
    """A folder of texts, by the names of files."""

    def __init__(self, texts: Mapping[str, str], lenient: int = 0) -> None:
        self._texts = texts
        self.lenience = Lenience(lenient)

    def has(self, name: str) -> bool:
        """Whether there is a table."""
        return name in self._texts

    def table(self, name: str, columns: Sequence[Column]) -> TableRows:
        """The rows of a table.

        :raises TraceProblems: when there is none.
        """
        if name not in self._texts:
            raise TraceProblems([f"{name}: there is no such file"])
        return TableRows(self._texts[name].splitlines(keepends=True), name, columns, self.lenience)
