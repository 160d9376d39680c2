"""Files that take the place of old ones in one step."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from fakedev.base.errors import CannotWrite


def put_in_place(unfinished: str | Path, target: str | Path) -> None:
    """Give a finished file its name, in place of the file that had it.

    What is no file stays: a report of root's to /dev/null would take that from all programs of the machine.

    :raises OSError: when that fails; ENXIO where a device, a pipe or a socket has the name.
    """
    with suppress(FileNotFoundError):
        kind = os.stat(target).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            raise OSError(errno.ENXIO, "", str(target))
    os.replace(unfinished, target)


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
        put_in_place(unfinished, target)
        unfinished = ""
    except OSError as reason:
        raise CannotWrite(str(target), reason) from None
    finally:
        if unfinished:
            with suppress(OSError):
                os.unlink(unfinished)
