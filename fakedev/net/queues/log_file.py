"""The folder of a durable queue: its lock, and the file of its log."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

from twisted.logger import Logger

from fakedev.net.system.files import PRIVATE
from fakedev.spec.os_errors import CannotWrite
from fakedev.workqueue.log_records import DamagedLog, Replayed, replay

LOG_NAME = "requests.log"
LOCK_NAME = "lock"
#: A typical record has some hundred bytes, the longest 1 MiB.
_LINES_AT_ONCE: Final = 1000
_NEW_NAME = "requests.log.new"
_FLAGS = os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class LogFile:
    """Reads and writes the log of one queue. The writing methods block, and are called one at a time.

    :param folder: made if it is not there; nobody else may use it as long as this object is open.
    :raises CannotWrite: if it cannot be used.
    :ivar size: of the log, in bytes.
    """

    log = Logger()

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, LOG_NAME)
        self._new_path = os.path.join(folder, _NEW_NAME)
        self._folder = self._lock = self._descriptor = -1
        self.size = 0
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._lock = os.open(os.path.join(folder, LOCK_NAME), _FLAGS | os.O_RDWR, PRIVATE)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as reason:
            self.close()
            raise CannotWrite(folder, reason) from None

    def read(self, queue: str) -> Replayed:
        """The content of the log.

        :raises CannotWrite: if it cannot be read, is damaged, or belongs to another queue.
        """
        try:
            with open(self.path, "rb") as file:
                length = os.fstat(file.fileno()).st_size
                replayed = replay(file)
        except FileNotFoundError:
            return Replayed("", 0, (), 0)
        except OSError as reason:
            raise CannotWrite(self.path, reason) from None
        except DamagedLog as damage:
            raise CannotWrite(self.path, _text_of(damage, self.path)) from None
        if replayed.queue not in ("", queue):
            text = f"this is the log of the queue '{replayed.queue}', not of '{queue}': give another folder"
            raise CannotWrite(self.path, text)
        if replayed.good_bytes < length:
            self.log.warn(
                "{path}: the last record, at offset {offset}, is incomplete and is removed",
                path=self.path, offset=replayed.good_bytes,
            )  # fmt: skip
        return replayed

    def append(self, lines: Iterable[bytes]) -> None:
        """Add lines; they are on the disk when this returns.

        :raises OSError: and the lines must be written again, by :meth:`rewrite`.
        """
        try:
            size = _write_all(self._descriptor, lines)
            os.fdatasync(self._descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self.size)
                os.lseek(self._descriptor, self.size, os.SEEK_SET)
            raise
        self.size += size

    def rewrite(self, lines: Iterable[bytes]) -> None:
        """Replace all lines; they are on the disk when this returns.

        :raises OSError: and the file is as before.
        """
        with suppress(FileNotFoundError):
            os.unlink(self._new_path)
        descriptor = os.open(self._new_path, _FLAGS | os.O_EXCL | os.O_WRONLY, PRIVATE)
        try:
            size = _write_all(descriptor, lines)
            os.fdatasync(descriptor)
            os.rename(self._new_path, self.path)
            os.fsync(self._folder)
        except OSError:
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(self._new_path)
            raise
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = descriptor
        self.size = size

    def close(self) -> None:
        """Free the folder."""
        for descriptor in (self._descriptor, self._lock, self._folder):
            if descriptor >= 0:
                os.close(descriptor)
        self._folder = self._lock = self._descriptor = -1


def _text_of(damage: DamagedLog, path: str) -> str:
    """A damage with its remedy."""
    if damage.offset:
        remedy = f"restore the file, or lose what follows: truncate -s {damage.offset} {path}"
    else:
        remedy = "restore the file, or begin with an empty queue: move it away"
    return f"offset {damage.offset}: {damage.reason}: {remedy}"


def _write_all(descriptor: int, lines: Iterable[bytes]) -> int:
    """Write lines; returns their bytes."""
    size = 0
    for chunk in _chunks(lines):
        size += len(chunk)
        rest = memoryview(chunk)
        while rest:  # a disk that is nearly full takes a part
            rest = rest[os.write(descriptor, rest) :]
    return size


def _chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines, joined a few at a time: copying all of a long log would stop the reactor, and take its memory again."""
    remaining = iter(lines)
    while chunk := b"".join(islice(remaining, _LINES_AT_ONCE)):
        yield chunk
