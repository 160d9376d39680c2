"""Files that programs write: lines of which none is lost or incomplete, and whole files in one step."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from twisted.logger import Logger

from fakedev.nvml.files import replace_file as replace_bytes
from fakedev.spec.os_errors import CannotWrite

#: Read and write for the owner alone: the file may contain tokens, or names of pods.
PRIVATE: Final = 0o600
#: How many bytes are searched at a time for the last end of a line.
_BLOCK_BYTES: Final = 65536


class LineFile:
    """Adds lines to a file that only its owner may read, and that no other process writes at the same time.

    When a line cannot be written as a whole, none of it stays, the log has one error, and no more lines are written.
    Several lines may be written at once; those that are complete stay.

    :param what: what the file is, in messages: ``record``.
    :param head: the first line of a new file; a file that is not empty is refused then. None: lines are added to an
        existing file, without the incomplete last line of a program that was killed.
    :raises CannotWrite: when the file cannot be opened, or the head not written.
    :ivar problem: why no more lines are written; empty while they are.
    :ivar size: of the file, in bytes.
    """

    log = Logger()

    def __init__(self, what: str, path: str, head: bytes | None = None) -> None:
        self._what = what
        self._path = path
        self.problem = ""
        self._descriptor = -1
        try:
            # Without waiting: to open a pipe that no process reads would wait for one.
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, PRIVATE)
            status = os.fstat(self._descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.ENXIO, "")
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if status.st_size and head is not None:
                raise CannotWrite(path, f"there is a {what} already: move it away, or give another name")
            os.fchmod(self._descriptor, PRIVATE)
            self.size = self._cut_incomplete_line()
            self._append(head or b"")
        except (OSError, CannotWrite) as reason:
            self.close()
            raise reason if isinstance(reason, CannotWrite) else CannotWrite(path, reason) from None

    def write(self, line: bytes) -> None:
        """Add a line, or several; it is in the file when this returns, unless there is a problem."""
        if self.problem or self._descriptor < 0:
            return
        try:
            self._append(line)
        except OSError as reason:
            self.fail(CannotWrite(self._path, reason))

    def fail(self, reason: CannotWrite) -> None:
        """Write no more lines, and log the reason."""
        self.problem = f"the {self._what} ends: {reason}"
        self.log.error("{problem}; all else continues", problem=self.problem)

    def clear(self) -> None:
        """Remove all lines."""
        self.cut(0)

    def cut(self, size: int) -> None:
        """Remove what follows so many bytes."""
        os.ftruncate(self._descriptor, size)
        self.size = size

    def close(self) -> None:
        """Write no more lines."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest:  # a disk that is nearly full takes a part
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            self.size += line.rfind(b"\n", 0, len(line) - len(rest)) + 1
            with suppress(OSError):
                os.ftruncate(self._descriptor, self.size)
            raise
        self.size += len(line)

    def _cut_incomplete_line(self) -> int:
        """Remove what follows the last end of a line; returns the size."""
        size = end = os.fstat(self._descriptor).st_size
        while end:
            begin = max(0, end - _BLOCK_BYTES)
            place = os.pread(self._descriptor, end - begin, begin).rfind(b"\n")
            if place >= 0:
                end = begin + place + 1
                break
            end = begin
        if end < size:
            os.ftruncate(self._descriptor, end)
            self.log.warn(
                "the {what} {path} ended with an incomplete line, which is removed", what=self._what, path=self._path
            )
        return end


def sync_file(path: str) -> None:
    """Force what a file has to the disk; waits for it.

    :raises OSError: when that fails.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: str, text: str, mode: int = PRIVATE) -> None:
    """Write a whole file in one step: readers find the old content or the new one, also when the disk is full.

    :raises CannotWrite: and the old file stays.
    """
    replace_bytes(Path(path), text.encode("utf-8"), mode)
