"""Writing to standard output and error when nobody may be there to read."""

from __future__ import annotations

import contextlib
import os
from typing import TextIO


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
