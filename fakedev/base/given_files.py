"""Reading files that anybody may have made: never a device, a pipe or a folder, and never more than a bound."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO, Final

#: Records of long runs are the largest files that are read as a whole.
MOST_BYTES: Final = 2**30


def open_given(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file, or the pipe of a shell (``<(...)``, ``/dev/stdin``).

    :raises OSError: also for a named pipe, a socket and a device: to read one could wait for ever, or never end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    of_shell = stat.S_ISFIFO(mode) and os.path.realpath(path).startswith(("/proc/", "/dev/fd/"))
    if not (stat.S_ISREG(mode) or of_shell):
        os.close(descriptor)
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO, "")
    os.set_blocking(descriptor, True)
    return open(descriptor, "rb")


def read_given(path: str | os.PathLike[str], most_bytes: int = MOST_BYTES) -> bytes:
    """The content of a file.

    :raises OSError: as :func:`open_given`; also when it is longer, before more of it is read.
    """
    with open_given(path) as file:
        is_long = os.fstat(file.fileno()).st_size > most_bytes
        content = b"" if is_long else file.read(most_bytes + 1)
    if is_long or len(content) > most_bytes:
        size = f"{most_bytes >> 20} MiB" if most_bytes >= 2**20 else f"{most_bytes >> 10} KiB"
        raise OSError(f"is larger than {size}")
    return content
