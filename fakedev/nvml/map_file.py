"""A file of the layout of :mod:`fakedev.nvml.records` on the disk: created, written, and removed.

It is written with ``pwrite``: a full disk is an error then, not a signal, and readers see the writes in their order.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from fakedev import __version__
from fakedev.base.errors import CannotWrite
from fakedev.nvml.records import CLOSED, EVENT, HEAD, MAGIC, OPEN, REPLACED, Counts, head_of

_NUMBER: Final = struct.Struct("=q")


class MapFile:
    """A new file, which takes the place of one that another service has left.

    :param counts: what it has room for.
    :param now_ns: CLOCK_MONOTONIC, for the heartbeat.
    :param is_ours: the file that it takes the place of is one of this service, which still writes it.
    :param control: the UNIX socket for changes; empty for none.
    :raises CannotWrite: when it cannot be made.
    """

    def __init__(
        self, path: str, mode: int, counts: Counts, now_ns: int, *, is_ours: bool = False, control: str = ""
    ) -> None:
        self.path = path
        head = head_of(counts)
        self._slot_bytes, self._first_slot = int(head["slot_bytes"]), int(head["first_slot"])
        self._events, self._event_capacity = int(head["events"]), int(head["event_capacity"])
        self._sequence = self._event_sequence = 0
        self._descriptor = -1
        own: dict[str, int | str | bytes] = {
            "state": OPEN, "heartbeat": now_ns, "service_pid": os.getpid(), "fakedev_version": __version__,
            "control_socket": control,
        }  # fmt: skip
        unfinished = ""
        try:
            if not is_ours:
                _refuse_foreign(path)
            folder, name = os.path.split(path)
            self._descriptor, unfinished = tempfile.mkstemp(prefix=f".{name[:50]}.", dir=folder or ".")
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.posix_fallocate(self._descriptor, 0, int(head["file_bytes"]))
            os.pwrite(self._descriptor, HEAD.pack({**head, **own}), 0)
            os.fchmod(self._descriptor, mode)
            self._unfinished = unfinished
        except (OSError, CannotWrite) as reason:
            if unfinished:
                with suppress(OSError):
                    os.unlink(unfinished)
            self._close()
            raise reason if isinstance(reason, CannotWrite) else CannotWrite(path, reason) from None

    def show(self) -> None:
        """Give the file its name; it has its first slot by then.

        :raises OSError: when that fails.
        """
        os.replace(self._unfinished, self.path)
        self._unfinished = ""

    def write_slot(self, content: bytes | bytearray) -> None:
        """Write a slot, and publish it.

        :raises OSError: when it cannot be written; readers stay at the last one.
        """
        following = self._sequence + 1
        self._set("begun", following)
        os.pwrite(self._descriptor, content, self._first_slot + following % 2 * self._slot_bytes)
        self._set("published", following)
        self._sequence = following

    def add_event(self, values: Mapping[str, int]) -> None:
        """Add an event to the ring.

        :raises OSError: when it cannot be written.
        """
        following = self._event_sequence + 1
        place = self._events + following % self._event_capacity * EVENT.size
        os.pwrite(self._descriptor, EVENT.pack({**values, "sequence": following}), place)
        self._set("event_sequence", following)
        self._event_sequence = following

    def beat(self, now_ns: int) -> None:
        """Write a heartbeat.

        :raises OSError: when it cannot be written.
        """
        self._set("heartbeat", now_ns)

    def end(self, *, is_replaced: bool = False) -> None:
        """Tell readers that nothing follows, and remove the file, unless another one has taken its name."""
        if self._descriptor < 0:
            return
        with suppress(OSError):
            self._set("state", REPLACED if is_replaced else CLOSED)
        with suppress(OSError):
            if self._unfinished:
                os.unlink(self._unfinished)
            elif os.path.samestat(os.lstat(self.path), os.fstat(self._descriptor)):
                os.unlink(self.path)
        self._close()

    def _set(self, field: str, number: int) -> None:
        os.pwrite(self._descriptor, _NUMBER.pack(number), HEAD.offsets[field])

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _refuse_foreign(path: str) -> None:
    """Do nothing if there is no file, or the one of a service that has ended.

    :raises CannotWrite: if there is another file, or another service writes it.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    except OSError as reason:
        if reason.errno == errno.ENXIO:
            raise CannotWrite(path, "there is a file of another kind: remove it, or give another name") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode) or os.pread(descriptor, len(MAGIC), 0) != MAGIC:
            raise CannotWrite(path, "there is a file of another kind: remove it, or give another name")
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            raise CannotWrite(path, "another fakedev writes it: stop that one, or give another name") from None
    finally:
        os.close(descriptor)
