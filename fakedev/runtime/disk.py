"""Files on the disk: appended lines, files replaced in one step, and watches for changed files.

No line is lost or incomplete: while the disk is full they wait. A watch reports when one of its files has changed or
was replaced, however that happened.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import accumulate, islice, takewhile
from pathlib import Path
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.filepath import FilePath

from fakedev.base.atomic_files import replace_file as replace_bytes
from fakedev.base.atomic_files import write_all
from fakedev.base.errors import CannotWrite

#: Read and write for the owner alone: the file may contain tokens, or names of pods.
PRIVATE: Final = 0o600
#: How many bytes are searched at a time for the last end of a line.
_BLOCK_BYTES: Final = 65536
#: Bytes of lines that wait for a disk that is full or read-only, and of those that are then written at once.
MAX_WAITING_BYTES: Final = 16 * 2**20
_BYTES_AT_ONCE: Final = 65536


def open_own(path: str, flags: int = 0) -> int:
    """Open a file for writing, make it if it is missing, and lock it for this process; returns the descriptor.

    :param flags: more of them.
    :raises OSError: also for what is no regular file, for a link, and when another process has locked it.
    """
    # Without waiting: to open a pipe that no process reads would wait for one.
    flags |= os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, PRIVATE)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENXIO, "")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class LineFile:
    """Adds lines to a file that no other process writes at the same time.

    When lines cannot be written as a whole, none of them stays, and the log has one error. They wait for the next
    :meth:`write`, in their order with all further ones; when too many wait, none of them is written any more.

    :param what: what the file is, in messages: ``record``.
    :param head: the first line of a new file; a file that is not empty is refused then. None: lines are added to an
        existing file, without the incomplete last line of a program that was killed.
    :param mode: permissions; by default only its owner may read it.
    :raises CannotWrite: when the file cannot be opened, or the head not written.
    :ivar problem: why lines wait, or none are written any more; empty while they are.
    :ivar size: of the file, in bytes.
    """

    log = Logger()

    def __init__(self, what: str, path: str, head: bytes | None = None, mode: int = PRIVATE) -> None:
        self._what = what
        self._path = path
        self.problem = ""
        self._descriptor, self.size = -1, 0
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        try:
            self._descriptor = open_own(path, os.O_APPEND)
            if head is not None and os.fstat(self._descriptor).st_size:
                raise CannotWrite(path, f"there is a {what} already: move it away, or give another name")
            os.fchmod(self._descriptor, mode)
            self.size = self._cut_incomplete_line()
            self.append([head or b""])
        except (OSError, CannotWrite) as reason:
            self.close()
            raise reason if isinstance(reason, CannotWrite) else CannotWrite(path, reason) from None

    @property
    def waits(self) -> bool:
        return bool(self._waiting)

    @property
    def has_ended(self) -> bool:
        """Whether it has stopped writing: it is closed, or too many lines have waited."""
        return self._descriptor < 0

    def write(self, lines: bytes = b"") -> None:
        """Add a line, or several: in the file when this returns, unless there is a problem.

        :param lines: none: try again to write those that wait.
        """
        if lines:
            self._waiting.append(lines)
            self._waiting_bytes += len(lines)
        if self.has_ended or not self._waiting:
            return
        ends = accumulate(map(len, self._waiting))
        count = max(1, sum(1 for _ in takewhile(lambda end: end <= _BYTES_AT_ONCE, ends)))
        try:
            self.append([b"".join(islice(self._waiting, count))])
        except OSError as reason:
            self.fail(CannotWrite(self._path, reason))
            return
        self._waiting_bytes -= sum(len(self._waiting.popleft()) for _ in range(count))
        if not self._waiting:
            self.works()

    def append(self, lines: Iterable[bytes], *, synced: bool = False) -> None:
        """Add all of some lines, or none.

        :param synced: they are on the disk when this returns.
        :raises OSError: when that is not possible.
        """
        try:
            size = write_all(self._descriptor, lines)
            if synced:
                os.fdatasync(self._descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._descriptor, self.size)
            raise
        self.size += size

    def fail(self, reason: CannotWrite) -> None:
        """Something cannot be written at the moment. The log has it once."""
        before, self.problem = self.problem, f"the {self._what} waits: {reason}"
        if self._waiting_bytes > MAX_WAITING_BYTES:
            before, self.problem = "", f"the {self._what} ends, too many lines have waited: {reason}"
            self.close()
        if not before:
            self.log.error("{problem}; all else continues", problem=self.problem)

    def works(self) -> None:
        """All that has waited is written."""
        if self.problem:
            self.problem = ""
            self.log.info("the {what} can be written again: {path}", what=self._what, path=self._path)

    def clear(self) -> None:
        """Remove all lines."""
        self.cut(0)

    def cut(self, size: int) -> None:
        """Cut the file to this number of bytes."""
        os.ftruncate(self._descriptor, size)
        self.size = size

    def close(self) -> None:
        """Stop writing. Waiting lines that still find no room are lost, which is logged."""
        if self.has_ended:
            return
        try:
            if self._waiting:
                self.append(self._waiting)
        except OSError:
            text = "the {what} {path} misses its last lines: {count} writes found no room"
            self.log.error(text, what=self._what, path=self._path, count=len(self._waiting))
        self._waiting.clear()
        os.close(self._descriptor)
        self._descriptor = -1

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


def replace_file(path: str, text: str, mode: int = PRIVATE) -> None:
    """Write a whole file in one step: readers find the old content or the new one, also when the disk is full.

    :raises CannotWrite: and the old file stays.
    """
    replace_bytes(Path(path), text.encode("utf-8"), mode)


#: Wait after a change in a folder: writing several files, or one in several steps, mostly ends within it.
_SETTLE_SECONDS: Final = 0.3
#: How often folders are checked that cannot be watched: they are missing, or the system's limit is reached.
_LOOK_AGAIN_SECONDS: Final = 5.0
#: The longest chain of links.
_MAX_LINKS: Final = 10

#: A file at the time of a check: device, inode, time, size; None when it was missing.
Seen = tuple[int, int, int, int] | None


def watch_folders(folders: Iterable[str], changed: Callable[[], None]) -> tuple[Any, bool]:
    """Watch folders by inotify.

    :param changed: called for each change in one of them.
    :returns: the notifier, with ``loseConnection``, and whether it watches all folders.
    """
    from twisted.internet import inotify  # noqa: PLC0415 - only Linux has it

    notifier = inotify.INotify()
    notifier.startReading()
    mask = inotify.IN_CLOSE_WRITE | inotify.IN_CREATE | inotify.IN_MOVED_TO | inotify.IN_MOVED_FROM | inotify.IN_DELETE
    is_all = True
    for folder in folders:
        try:
            notifier.watch(FilePath(folder), mask | inotify.IN_MOVE_SELF, callbacks=[lambda *_: changed()])
        except inotify.INotifyError:
            is_all = False
    return notifier, is_all


class FileFollower(Service):
    """Checks some files whenever something changes in a folder that contains them, or links to them.

    :param files: returns the paths of the files, the main one first; called again after each change.
    :param changed: called when a file was changed or replaced since the last check; its Deferred fires when the
        caller has finished with the change.
    :param watch: as :func:`watch_folders`.
    """

    log = Logger()

    def __init__(
        self,
        files: Callable[[], Sequence[str]],
        changed: Callable[[], Deferred[None]],
        clock: IReactorTime,
        watch: Callable[[Iterable[str], Callable[[], None]], tuple[Any, bool]] = watch_folders,
    ) -> None:
        self.setName("follower")
        self._files = files
        self._changed = changed
        self._clock = clock
        self._watch = watch
        self._watching: Any = None
        self._look: IDelayedCall | None = None
        self._seen: dict[str, Seen] = {}

    def startService(self) -> None:
        """Start to watch; the present files count as unchanged."""
        super().startService()
        self._watch_folders()
        self._seen = {path: _seen(path) for path in self._files()}

    def stopService(self) -> None:
        super().stopService()
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if self._watching is not None:
            self._watching.loseConnection()

    def _check_soon(self) -> None:
        if self._look is None and self.running:
            self._look = self._clock.callLater(_SETTLE_SECONDS, self._compare)

    def _compare(self) -> None:
        self._look = None
        # The folders may be different now: links may have changed, and removed folders are not watched any more.
        self._watch_folders()
        files = self._files()
        now = {path: _seen(path) for path in files}
        # A missing main file is being replaced: wait for the new one.
        if now[files[0]] is None or all(now[path] == self._seen.get(path, now[path]) for path in files):
            return
        self._seen = now
        self.log.info("{path} has changed", path=files[0])
        # The files may be different after that.
        self._changed().addBoth(lambda _: self._check_soon())

    def _watch_folders(self) -> None:
        before = self._watching
        folders = dict.fromkeys(folder for path in self._files() for folder in _folders(path))
        self._watching, is_all = self._watch(folders, self._check_soon)
        if before is not None:
            before.loseConnection()
        if not is_all and self._look is None:
            self._look = self._clock.callLater(_LOOK_AGAIN_SECONDS, self._compare)


def _seen(path: str) -> Seen:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def _folders(path: str) -> Iterable[str]:
    """The folders of a file and of all links to it: a mounted ConfigMap is a link through a link to a folder."""
    for _ in range(_MAX_LINKS):
        folder = os.path.dirname(path)
        yield folder
        yield os.path.realpath(folder)
        try:
            target = os.readlink(path)
        except OSError:
            return
        # The folder may be a link as well; changes of it show in the folder that contains it.
        path = os.path.normpath(os.path.join(folder, target))
        parent = os.path.dirname(path)
        if os.path.islink(parent):
            yield os.path.dirname(parent)
