"""Our own folders, and files that take the place of old ones in one step."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from fakedev.base.errors import CannotWrite


def own_folder(path: str | Path) -> None:
    """Make a folder that only this user can enter; or check that nobody else can write in one that is there.

    :raises CannotWrite: when others may write there, or a link of another user leads there.
    """
    try:
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)
        link, status = os.lstat(path), os.stat(path)
    except OSError as reason:
        raise CannotWrite(str(path), reason) from None
    if not stat.S_ISDIR(status.st_mode):
        raise CannotWrite(str(path), "it is no folder")
    own = os.geteuid()
    if status.st_uid != own or link.st_uid not in (own, 0) or status.st_mode & 0o022:
        text = "others may write there: make it a folder of the user of the service, with mode 0700, or name one in it"
        raise CannotWrite(str(path), text)


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


def write_all(descriptor: int, pieces: Iterable[bytes]) -> int:
    """Write some pieces; returns their number of bytes.

    :raises OSError: perhaps after a part of them.
    """
    size = 0
    for piece in pieces:
        size += len(piece)
        rest = memoryview(piece)
        while rest:  # a disk that is nearly full takes a part
            rest = rest[os.write(descriptor, rest) :]
    return size


def sync(path: str | Path) -> None:
    """Force what a file or a folder has to the disk; waits for it.

    :raises OSError: when that fails.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_whole(target: Path, pieces: Iterable[bytes], mode: int, *, synced: bool) -> None:
    """Write a whole file: readers find the old content or the new one; who has the old file open keeps it.

    :param mode: its permissions.
    :param synced: it is on the disk when this returns, also after a loss of power.
    :raises OSError: and the old file stays.
    """
    descriptor, unfinished = tempfile.mkstemp(prefix=f".{target.name[:50]}.", dir=target.parent)
    try:
        try:
            os.fchmod(descriptor, mode)
            write_all(descriptor, pieces)
            if synced:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        put_in_place(unfinished, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(unfinished)
        raise
    if synced:
        sync(target.parent)


def replace_file(target: Path, content: bytes, mode: int) -> None:
    """Write a whole file as :func:`replace_whole`, not synced.

    :raises CannotWrite: and the old file stays.
    """
    try:
        replace_whole(target, [content], mode, synced=False)
    except OSError as reason:
        raise CannotWrite(str(target), reason) from None
