"""Follows files: tells when one of them is another than before, however that came about."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.filepath import FilePath

#: After a change in a folder: who writes several files, or one in several steps, mostly has done so by then.
_SETTLE_SECONDS: Final = 0.3
#: How often it is looked at folders that cannot be watched: they are not there, or the limit of the system is reached.
_LOOK_AGAIN_SECONDS: Final = 5.0
#: Links to links that are followed.
_MAX_LINKS: Final = 10

#: What a file was when it was looked at: device, inode, time, size; None when it was not there.
Seen = tuple[int, int, int, int] | None


def watch_folders(folders: Iterable[str], told: Callable[[], None]) -> tuple[Any, bool]:
    """Watch folders by inotify.

    :param told: is called for each thing that changes in one of them.
    :returns: what watches, with ``loseConnection``, and whether it watches all of them.
    """
    from twisted.internet import inotify  # noqa: PLC0415 - only Linux has it

    notifier = inotify.INotify()
    notifier.startReading()
    mask = inotify.IN_CLOSE_WRITE | inotify.IN_CREATE | inotify.IN_MOVED_TO | inotify.IN_MOVED_FROM | inotify.IN_DELETE
    is_all = True
    for folder in folders:
        try:
            notifier.watch(FilePath(folder), mask | inotify.IN_MOVE_SELF, callbacks=[lambda *_: told()])
        except inotify.INotifyError:
            is_all = False
    return notifier, is_all


class FileFollower(Service):
    """Looks at some files whenever something happens in a folder that they, or links to them, are in.

    :param files: paths of the files, the main one first; asked again after each change.
    :param changed: is called when one is another file, or other text, than when it was looked at last;
        fires when what follows from that is done.
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
        """Begin: what is there now is nothing new."""
        super().startService()
        self._watch_anew()
        self._seen = {path: _seen(path) for path in self._files()}

    def stopService(self) -> None:
        """Follow no more."""
        super().stopService()
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if self._watching is not None:
            self._watching.loseConnection()

    def _told(self) -> None:
        """Something has happened in a folder."""
        if self._look is None and self.running:
            self._look = self._clock.callLater(_SETTLE_SECONDS, self._compare)

    def _compare(self) -> None:
        """Look at the files, and tell when one has changed."""
        self._look = None
        # The folders may be others: links may have changed, and what was removed is watched no longer.
        self._watch_anew()
        files = self._files()
        now = {path: _seen(path) for path in files}
        # Whoever replaces the main file by removing it first is not done yet.
        if now[files[0]] is None or all(now[path] == self._seen.get(path, now[path]) for path in files):
            return
        self._seen = now
        self.log.info("{path} has changed", path=files[0])
        # There may be other files then.
        self._changed().addBoth(lambda _: self._told())

    def _watch_anew(self) -> None:
        before = self._watching
        folders = dict.fromkeys(folder for path in self._files() for folder in _folders(path))
        self._watching, is_all = self._watch(folders, self._told)
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
    """The folders of a file and of all links on the way to it: a mounted ConfigMap is a link by a link to a folder."""
    for _ in range(_MAX_LINKS):
        folder = os.path.dirname(path)
        yield folder
        yield os.path.realpath(folder)
        try:
            target = os.readlink(path)
        except OSError:
            return
        # The folder may be a link in turn, which its own folder tells of.
        path = os.path.normpath(os.path.join(folder, target))
        parent = os.path.dirname(path)
        if os.path.islink(parent):
            yield os.path.dirname(parent)
