"""Log lines of the console programs: date, time, text, as the original programs print them."""

from __future__ import annotations

import sys
import time

from fakedev.commands.console import write_text

_LONGEST_TEXT = 2000


def log(text: str) -> None:
    """Write one line to standard error; a reader that left it is no reason to fail.

    The text may come from a peer: it stays one line, without control characters.
    """
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text[:_LONGEST_TEXT])
    write_text(sys.stderr, f"{time.strftime('%Y/%m/%d %H:%M:%S')} {shown}\n")
