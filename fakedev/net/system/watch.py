"""Watches files: reports when one of them has changed or was replaced, however that happened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.filepath import FilePath

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
