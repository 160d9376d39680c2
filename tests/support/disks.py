"""A disk that is full, as far as one process can tell; and one on which a process ends at any change of a file."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: a write stores what has room, and the next one fails (EFBIG).

    Modules that are imported meanwhile are not compiled into files: Python would keep one that was cut off.
    """
    before, compiles = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = compiles
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class Crash(BaseException):
    """The process is killed, or the power is lost."""


class CrashingDisk:
    """Counts the changes of one folder's files; at one of them the process ends, or the disk is full from then on.

    A change is a call of the system that writes, syncs, renames, removes or cuts. The last write leaves the half of its
    bytes; one of less than a page in place is atomic, as for the kernel.

    :param crash_at, full_at: the number of a change, from 0.
    :ivar changes: how many there were.
    :ivar is_full: set it to False, and there is room again.
    """

    def __init__(
        self, folder: Path, patch: pytest.MonkeyPatch, crash_at: int | None = None, full_at: int | None = None
    ) -> None:
        self.folder = folder
        self.changes = 0
        self.is_full = False
        self._crash_at, self._full_at = crash_at, full_at
        self._is_over = False
        self._synced: dict[int, bytes] = {}  # by inode
        self._names: dict[str, int] = {}
        for name in ("write", "pwrite", "fsync", "fdatasync", "replace", "unlink", "ftruncate"):
            patch.setattr(os, name, partial(self._call, name, getattr(os, name)))

    def _call(self, name: str, do: Callable[..., Any], first: Any, *more: Any) -> Any:
        path = os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else os.fspath(first)
        if not str(path).startswith(str(self.folder)):
            return do(first, *more)
        if self._is_over:
            raise Crash  # what would run in a dead process changes nothing
        number, self.changes = self.changes, self.changes + 1
        is_write = name in ("write", "pwrite")
        if number == self._crash_at:
            self._is_over = True
            if name == "write":
                do(first, more[0][: len(more[0]) // 2])
            raise Crash
        if is_write and (self.is_full or number == self._full_at):
            self.is_full = True
            raise OSError(errno.ENOSPC, "")
        result = do(first, *more)
        if name in ("fsync", "fdatasync"):
            self._note_synced(path)
        return result

    def _note_synced(self, path: str) -> None:
        if os.path.isdir(path):
            self._names = {entry.name: entry.inode() for entry in os.scandir(path)}
        else:
            self._synced[os.stat(path).st_ino] = Path(path).read_bytes()

    def copy(self, name: str) -> Path:
        """What another process finds after a crash. Locks of this one are not there."""
        return Path(shutil.copytree(self.folder, f"{self.folder}-{name}"))

    def copy_without_power(self, *, keeps_names: bool) -> Path:
        """What is there after a loss of power: only what was synced.

        :param keeps_names: of files, also of those whose folder was not synced: most file systems do.
        """
        names = {entry.name: entry.inode() for entry in os.scandir(self.folder)} if keeps_names else self._names
        after = Path(f"{self.folder}-without-power-{keeps_names}")
        after.mkdir(0o700)
        for name, inode in names.items():
            (after / name).write_bytes(self._synced.get(inode, b""))
        return after
