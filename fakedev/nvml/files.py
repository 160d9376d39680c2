"""Files that take the place of old ones in one step."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from fakedev.spec.os_errors import CannotWrite


def replace_file(target: Path, content: bytes, mode: int) -> None:
    """Write a whole file: readers find the old content or the new one; who has the old file open keeps it.

    :param mode: its permissions.
    :raises CannotWrite: and the old file stays.
    """
    unfinished = ""
    try:
        descriptor, unfinished = tempfile.mkstemp(prefix=f".{target.name[:50]}.", dir=target.parent)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
        os.replace(unfinished, target)
    except OSError as reason:
        if unfinished:
            with suppress(OSError):
                os.unlink(unfinished)
        raise CannotWrite(str(target), reason) from None
