"""Progress on a terminal: one line that is written anew; elsewhere a line now and then."""

from __future__ import annotations

from typing import Final, TextIO

from fakedev.commands.console import write_text

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
