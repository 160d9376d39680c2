"""The history of a run as OpenMetrics files of two hours each, and as blocks, which are made while it goes on."""

from __future__ import annotations

import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final

from fakedev.scenario.rules.promtool import BlockMaker
from fakedev.scenario.samples.openmetrics import EOF, OpenMetricsText, file_name, window_of
from fakedev.scenario.samples.series import Stored

_PART: Final = ".part"


class HistoryFiles(AbstractContextManager["HistoryFiles"]):
    """A context that writes windows to files. At its end, also after an error or ^C, the last file is whole, too.

    A file has another name until it is whole; one that cannot be written keeps that name.

    :param blocks: makes blocks of each window while the next one is written.
    :raises OSError: here and in :meth:`write`, when something cannot be written.
    """

    def __init__(self, folder: Path, blocks: BlockMaker | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._blocks = blocks
        self._text = OpenMetricsText()
        self._window: int | None = None
        self._stream: BinaryIO | None = None
        self._size = 0
        self.files: list[Path] = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, OSError):
            self._end()

    def write(self, stored: Stored) -> None:
        """Write the samples of an instant; they come in the order of their times.

        :raises PromtoolError: when promtool refuses an earlier window.
        """
        window = window_of(stored.milliseconds)
        if window != self._window:
            self._end()
            self._window = window
            self._text.begin()
            self._stream, self._size = self._path(_PART).open("wb"), 0
        assert self._stream is not None
        text = self._text.lines(stored)
        self._stream.write(text)
        self._size += len(text)

    def _path(self, suffix: str = "") -> Path:
        assert self._window is not None
        return self._folder / (file_name(self._window) + suffix)

    def _end(self) -> None:
        if self._stream is None:
            return
        with self._stream as stream:
            self._stream = None
            # ^C may have come in the middle of an instant.
            stream.seek(self._size)
            stream.truncate()
            stream.write(EOF)
        file = self._path()
        self._path(_PART).replace(file)
        self.files.append(file)
        if self._blocks is not None:
            self._blocks.add(file)


class HistoryStream(AbstractContextManager["HistoryStream"]):
    """A context that writes a history to a stream as one text; ``# EOF`` ends it, also after ^C."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._text = OpenMetricsText()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, OSError):
            self._stream.write(EOF)
            self._stream.flush()

    def write(self, stored: Stored) -> None:
        self._stream.write(self._text.lines(stored))


class HistoryBlocks(AbstractContextManager["HistoryBlocks"]):
    """A context that makes blocks of a history, and removes its text. After ^C there are blocks of what there is.

    :param data: the folder of the blocks.
    :raises PromtoolError: without promtool.
    :raises OSError: when the text cannot be written.
    """

    def __init__(self, data: Path) -> None:
        self._blocks = BlockMaker(data, removes=True)
        data.mkdir(parents=True, exist_ok=True)
        # Next to the blocks: the folder for temporary files may be in memory.
        self._folder = tempfile.TemporaryDirectory(prefix="fakedev-", dir=data, ignore_cleanup_errors=True)
        self._files = HistoryFiles(Path(self._folder.name), self._blocks)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._folder:
            try:
                if error is None or isinstance(error, KeyboardInterrupt):
                    self._files.__exit__(None, None, None)
                    self._blocks.finish()
            finally:
                self._blocks.stop()

    def write(self, stored: Stored) -> None:
        """Write the samples of an instant; they come in the order of their times.

        :raises PromtoolError: when promtool refuses an earlier window.
        """
        self._files.write(stored)
