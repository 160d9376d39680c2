"""Files of JSON Lines that console programs write: journals, records, the truth of a scenario."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Self

from fakedev.base.errors import plain_reason


class CannotWriteLines(ValueError):
    """A file of lines that cannot be written."""

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(f"{path}: {plain_reason(error)}")


class LinesFile:
    """A context with a new file that gets JSON Lines, or without one.

    :param path: None for none.
    :raises CannotWriteLines: here and in :meth:`write`, when it cannot be written.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._stream: BinaryIO | None = None
        if path is not None:
            try:
                self._stream = Path(path).open("wb")  # noqa: SIM115 - this context closes it
            except OSError as error:
                raise CannotWriteLines(path, error) from None

    @property
    def is_wanted(self) -> bool:
        """Whether there is a file."""
        return self._stream is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stream is not None:
            self._stream.close()

    def write(self, lines: Iterable[bytes]) -> None:
        """Write lines, each with its line break."""
        if self._stream is not None and self._path is not None:
            try:
                self._stream.writelines(lines)
                self._stream.flush()
            except OSError as error:
                raise CannotWriteLines(self._path, error) from None
