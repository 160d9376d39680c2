"""The folder of a trace: its files on the disk, packed by gzip or not, read as streams."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TextIO, cast

from fakedev.spec.os_errors import plain_reason
from fakedev.traces.json_records import JsonRecords
from fakedev.traces.problems import Lenience, TraceProblems
from fakedev.traces.table import PLAIN, Column, TableForm, TableRows
from fakedev.traces.trace import Window

#: A longer line is no line of a table; it is not read to its end.
_LONGEST_LINE: Final = 100_000
#: A file without lines is read in parts of so many characters.
_PART: Final = 65_536
_PACKED: Final = ".gz"


class TraceFolder:
    """A folder with files; each may be in the folder ``csv`` of it, and packed.

    :param lenience: of all files together.
    :ivar window: what will be replayed.
    """

    def __init__(self, path: str, lenience: Lenience, window: Window) -> None:
        self._path = Path(path)
        self._lenience = lenience
        self.window = window

    def has(self, name: str) -> bool:
        """Whether there is a file."""
        return self._found(name) is not None

    def head(self, name: str) -> Sequence[str]:
        """The names in the first line of a file; none where there is no such file.

        :raises TraceProblems: when it cannot be read.
        """
        path = self._found(name)
        try:
            line = "" if path is None else next(_read(path, _lines), "")
        except UnicodeDecodeError:
            raise TraceProblems([f"{path}:1: is not UTF-8"]) from None
        return [each.strip() for each in line.removeprefix("\ufeff").split(",")] if line.strip() else []

    def table(self, name: str, columns: Sequence[Column], form: TableForm = PLAIN) -> TableRows:
        """The rows of a table.

        :raises TraceProblems: when there is none.
        """
        path = self._existing(name)
        return TableRows(_read(path, _lines), str(path), columns, self._lenience, form)

    def records(self, name: str) -> JsonRecords:
        """The records of a file with a JSON array of objects.

        :raises TraceProblems: when there is none.
        """
        path = self._existing(name)
        return JsonRecords(_read(path, _parts), str(path), self._lenience)

    def _existing(self, name: str) -> Path:
        path = self._found(name)
        if path is None:
            raise TraceProblems([f"{self._path / name}: there is no such file, and none with {_PACKED}"])
        return path

    def _found(self, name: str) -> Path | None:
        folders = (self._path, self._path / "csv")
        paths = (folder / each for folder in folders for each in (name, name + _PACKED))
        try:
            return next((path for path in paths if path.is_file()), None)
        except OSError as error:
            raise TraceProblems([f"{self._path / name}: {plain_reason(error)}"]) from None


def _read(path: Path, divided: Callable[[TextIO, Path], Iterator[str]]) -> Iterator[str]:
    """The text of a file in parts.

    :raises TraceProblems: when it cannot be read.
    """
    packed = path.suffix == _PACKED
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8", newline="")
            if packed
            else path.open(encoding="utf-8", newline="") as stream
        ):
            yield from divided(cast("TextIO", stream), path)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise TraceProblems([f"{path}: is not gzip, or is cut off: pack it again"]) from None
    except OSError as error:
        raise TraceProblems([f"{path}: {plain_reason(error)}"]) from None


def _lines(stream: TextIO, path: Path) -> Iterator[str]:
    number = 1
    while line := stream.readline(_LONGEST_LINE):
        if len(line) == _LONGEST_LINE:
            raise TraceProblems([f"{path}:{number}: the line is longer than {_LONGEST_LINE:,} characters"])
        yield line
        number += 1


def _parts(stream: TextIO, path: Path) -> Iterator[str]:
    while part := stream.read(_PART):
        yield part
