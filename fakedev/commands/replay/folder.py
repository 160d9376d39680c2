"""The folder of a trace: its tables on the disk, packed by gzip or not."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from fakedev.spec.os_errors import plain_reason
from fakedev.traces.table import Column, Lenience, TableRows, TraceProblems

#: A longer line is no line of a table; it is not read to its end.
_LONGEST_LINE: Final = 100_000
_PACKED: Final = ".gz"


class TraceFolder:
    """A folder with tables; a table may be in the folder ``csv`` of it, and packed.

    :param lenience: of all tables together.
    """

    def __init__(self, path: str, lenience: Lenience) -> None:
        self._path = Path(path)
        self._lenience = lenience

    def has(self, name: str) -> bool:
        """Whether there is a table."""
        return self._found(name) is not None

    def table(self, name: str, columns: Sequence[Column]) -> TableRows:
        """The rows of a table.

        :raises TraceProblems: when there is none.
        """
        path = self._found(name)
        if path is None:
            raise TraceProblems([f"{self._path / name}: there is no such file, and none with {_PACKED}"])
        return TableRows(_lines(path), str(path), columns, self._lenience)

    def _found(self, name: str) -> Path | None:
        folders = (self._path, self._path / "csv")
        paths = (folder / each for folder in folders for each in (name, name + _PACKED))
        return next((path for path in paths if path.is_file()), None)


def _lines(path: Path) -> Iterator[str]:
    """The lines of a table.

    :raises TraceProblems: when they cannot be read.
    """
    try:
        packed = path.suffix == _PACKED
        with gzip.open(path, "rt", encoding="utf-8", newline="") if packed else path.open(
            encoding="utf-8", newline=""
        ) as stream:
            number = 1
            while line := stream.readline(_LONGEST_LINE):
                if len(line) == _LONGEST_LINE:
                    raise TraceProblems([f"{path}:{number}: the line is longer than {_LONGEST_LINE:,} characters"])
                yield line
                number += 1
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise TraceProblems([f"{path}: is not gzip, or is cut off: pack it again"]) from None
    except OSError as error:
        raise TraceProblems([f"{path}: {plain_reason(error)}"]) from None
