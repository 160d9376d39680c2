"""Standard output and error of the console programs: text, log lines and progress, also when the reader has gone."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import Final, TextIO

_LONGEST_TEXT: Final = 2000
_SECONDS_ON_TERMINAL: Final = 1.0
_SECONDS_ELSEWHERE: Final = 10.0


def write_text(stream: TextIO | None, text: str) -> None:
    """Write and flush; a closed stream, or one whose reader has gone, is no error.

    :param stream: None when the program was started with the descriptor closed.
    """
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        # The interpreter would write buffered data again when it exits, and change the exit code.
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def log(text: str) -> None:
    """Write a line of date, time and text to standard error, as the original programs do.

    The text may come from a peer, so control characters are escaped and long texts are cut.
    """
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:_LONGEST_TEXT])
    write_text(sys.stderr, f"{time.strftime('%Y/%m/%d %H:%M:%S')} {shown}\n")


class ProgressLine:
    """Shows progress: on a terminal in one line that is overwritten, elsewhere in a line now and then.

    :ivar seconds: how often :meth:`tell` should be called.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._is_terminal = stream is not None and stream.isatty()
        self._is_open = False
        self.seconds = _SECONDS_ON_TERMINAL if self._is_terminal else _SECONDS_ELSEWHERE

    def tell(self, text: str) -> None:
        """Show a text instead of the previous one."""
        if self._is_terminal:
            write_text(self._stream, f"\r{text}\x1b[K")  # clear the rest of a longer previous text
            self._is_open = True
        else:
            write_text(self._stream, f"{text}\n")

    def end(self) -> None:
        """Keep the last text; further output begins a new line."""
        if self._is_open:
            write_text(self._stream, "\n")
            self._is_open = False
