"""Standard output and error of the console programs: text, log lines and progress, also when the reader has gone."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Self, TextIO

from fakedev.base.errors import printable

_LONGEST_TEXT: Final = 2000
_SECONDS_ON_TERMINAL: Final = 1.0
_SECONDS_ELSEWHERE: Final = 10.0
#: What takes no longer has no progress.
_SECONDS_WITHOUT_PROGRESS: Final = 2.0
#: Remaining times from here on are shown in minutes.
_SECONDS_IN_MINUTES: Final = 100.0


@contextlib.contextmanager
def restored_after_interrupt() -> Iterator[None]:
    """In this context Ctrl-C raises KeyboardInterrupt, because there is something to restore; elsewhere it ends us."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def tell_notes(notes: Iterable[str]) -> None:
    """Print the notes of a configuration to standard error."""
    for note in notes:
        write_text(sys.stderr, f"note: {note}\n")


def printable_lines(text: str) -> str:
    """A text with escapes for all that does not print, but for the ends of lines and tabs."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)


def write_text(stream: TextIO | None, text: str, *, is_document: bool = False) -> None:
    """Write and flush. What does not print is escaped: the text may quote a peer or a file, and terminals obey.

    :param stream: None when the program was started with the descriptor closed.
    :param is_document: the text is for programs: it stays as it is where no terminal shows it.
    """
    if stream is not None:
        _write(stream, text if is_document and not stream.isatty() else printable_lines(text))


def write_bytes(stream: TextIO, document: bytes) -> None:
    """Write and flush a document, in UTF-8 whatever the locale is; escaped on a terminal, as :func:`write_text`."""
    if stream.isatty():
        write_text(stream, document.decode())
    else:
        stream.buffer.write(document)
        stream.buffer.flush()


def _write(stream: TextIO, text: str) -> None:
    """Write and flush; a closed stream, or one whose reader has gone, is no error."""
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        # The interpreter would write buffered data again when it exits, and change the exit code.
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """Rows with the same columns as aligned text."""
    titles = list(rows[0]) if rows else []
    lines = [titles, *([row[title] for title in titles] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(titles))]
    shown = ("  ".join(f"{text:{width}}" for text, width in zip(line, widths, strict=True)) for line in lines)
    return "".join(f"{line.rstrip()}\n" for line in shown)


def log(text: str) -> None:
    """Write a line of date, time and text to standard error, as the original programs do.

    The text may come from a peer, so control characters are escaped and long texts are cut.
    """
    write_text(sys.stderr, f"{time.strftime('%Y/%m/%d %H:%M:%S')} {printable(text[:_LONGEST_TEXT])}\n")


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
        if self._stream is not None and self._is_terminal:
            _write(self._stream, f"\r{printable(text)}\x1b[K")  # clear the rest of a longer previous text
            self._is_open = True
        else:
            write_text(self._stream, f"{text}\n")

    def end(self) -> None:
        """Keep the last text; further output begins a new line."""
        if self._is_open:
            write_text(self._stream, "\n")
            self._is_open = False


class Progress:
    """A context that shows on a terminal how much of something is done, and how long the rest will take.

    :param stream: usually standard error; None, or no terminal: nothing is shown.
    :param seconds: the clock.
    """

    def __init__(
        self, program: str, stream: TextIO | None, seconds: Callable[[], float] = time.monotonic
    ) -> None:
        self._program = program
        self._line = ProgressLine(stream) if stream is not None and stream.isatty() else None
        self._stream = stream
        self._seconds = seconds
        self._began = seconds()
        self._next = self._began + _SECONDS_WITHOUT_PROGRESS
        self._is_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, done: float) -> None:
        """Show the progress, but not often, and not before it has taken two seconds.

        :param done: from 0 to 1.
        """
        now = self._seconds()
        if self._line is None or now < self._next or done <= 0:
            return
        self._next = now + _SECONDS_ON_TERMINAL
        left = (now - self._began) * (1 - done) / done
        remaining = f"{left / 60:.0f} min" if left >= _SECONDS_IN_MINUTES else f"{left:.0f} s"
        self._line.tell(f"{self._program}: {done:.0%} done, about {remaining} left")
        self._is_shown = True

    def clear(self) -> None:
        """Remove the line from the terminal."""
        if self._stream is not None and self._is_shown:
            _write(self._stream, "\r\x1b[K")
            self._is_shown = False
