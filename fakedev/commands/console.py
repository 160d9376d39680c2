"""Writing to standard output and error when nobody may be there to read.

Log lines of the console programs: date, time, text, as the original programs print them.

Progress on a terminal: one line that is written anew; elsewhere a line now and then.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import Final, TextIO


def write_text(stream: TextIO | None, text: str) -> None:
    """Write and flush; a stream that is closed or whose reader left is no reason to fail.

    :param stream: None when the program was started with the descriptor closed.
    """
    if stream is None:
        return
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        # What is buffered would be tried again when the interpreter ends, and spoil the exit code.
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)

_LONGEST_TEXT = 2000


def log(text: str) -> None:
    """Write one line to standard error; a reader that left it is no reason to fail.

    The text may come from a peer: it stays one line, without control characters.
    """
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:_LONGEST_TEXT])
    write_text(sys.stderr, f"{time.strftime('%Y/%m/%d %H:%M:%S')} {shown}\n")

_SECONDS_ON_TERMINAL: Final = 1.0
_SECONDS_ELSEWHERE: Final = 10.0


class ProgressLine:
    """Shows the last thing that it was told.

    :ivar seconds: how often it should be told something.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._is_terminal = stream is not None and stream.isatty()
        self._is_open = False
        self.seconds = _SECONDS_ON_TERMINAL if self._is_terminal else _SECONDS_ELSEWHERE

    def tell(self, text: str) -> None:
        """Show a text in place of the one before."""
        if self._is_terminal:
            write_text(self._stream, f"\r{text}\x1b[K")  # and clear what the longer one before has left
            self._is_open = True
        else:
            write_text(self._stream, f"{text}\n")

    def end(self) -> None:
        """Leave the last text where it is; what is written next begins a line."""
        if self._is_open:
            write_text(self._stream, "\n")
            self._is_open = False
