"""The program's log, alone and under twistd: its destination, its level, and its lines, as text or JSON."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from twisted.application.service import IServiceCollection, MultiService
from twisted.internet.interfaces import IReactorCore, IReactorTime
from twisted.logger import ILogObserver, LogEvent, LogLevel, globalLogBeginner
from twisted.python.components import Componentized
from twisted.python.logfile import LogFile
from zope.interface import implementer

from fakedev.net.system.journald import SOCKET_PATH, JournalSocket, is_journal
from fakedev.net.system.log_lines import json_line, text_line
from fakedev.net.system.log_repeats import RepeatLimit


@implementer(ILogObserver)
class LogLines:
    """Writes events of a level and above to a stream, a line each.

    Twisted's own events of level info (for each port and factory) count as debug.

    :param journal: gets the entries in place of the stream, unless it cannot take one.
    """

    def __init__(
        self, stream: TextIO | LogFile, level: str = "info", form: str = "text", journal: JournalSocket | None = None
    ) -> None:
        self._stream = stream
        self._journal = journal
        self._lowest = LogLevel.levelWithName(level)
        self._line: Callable[[Mapping[str, Any]], str] = {"text": text_line, "json": json_line}[form]

    def __call__(self, event: LogEvent) -> None:
        level = event.get("log_level") or LogLevel.info
        if level is LogLevel.info and _is_of_twisted(event.get("log_namespace") or ""):
            level = LogLevel.debug
            event = {**event, "log_level": level}
        if level < self._lowest:
            return
        if self._journal is not None and self._journal.send(event):
            return
        try:
            self._stream.write(self._line(event))
            self._stream.flush()
        except (OSError, ValueError):
            # The reader of the log has gone, or the disk is full: no reason to stop, and no place to report it.
            return


def make_log(
    stream: TextIO | LogFile, reactor: Any, level: str = "info", form: str = "text", journal: str = SOCKET_PATH
) -> ILogObserver:
    """The observer of the whole program: it limits repeats, then writes lines.

    JSON for journald becomes fields of the journal, which can be searched there.

    :param journal: journald's socket.
    """
    fields = JournalSocket(journal) if form == "json" and is_journal(stream, os.environ) else None
    limit = RepeatLimit(LogLines(stream, level, form, fields), IReactorTime(reactor))
    if IReactorCore.providedBy(reactor):
        reactor.addSystemEventTrigger("after", "shutdown", limit.flush)
    return limit


def begin_logging(reactor: Any, level: str = "info", form: str = "text", stream: TextIO | None = None) -> None:
    """Log to standard error (or another stream); to be called once, when the program starts.

    Earlier entries are written now. Standard output stays as it is: it is for data.
    """
    observer = make_log(stream or sys.stderr, reactor, level, form)
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)


def twistd_log(
    twistd_options: Mapping[str, Any], reactor: Any, level: str = "info", form: str = "text"
) -> ILogObserver | None:
    """The observer for the application under twistd, or None when its options ask for another kind of log.

    ``--logfile``, and twistd.log of a daemon, get our lines; twistd handles ``--syslog`` and ``--logger``.

    :param twistd_options: ``options.parent`` in makeService.
    """
    if twistd_options.get("syslog") or twistd_options.get("logger"):
        return None
    name = twistd_options.get("logfile")
    stays = twistd_options.get("nodaemon") or twistd_options.get("debug")
    if name == "-":
        return make_log(sys.stdout, reactor, level, form) if stays else None
    if not name and stays:
        return make_log(sys.stderr, reactor, level, form)
    file = LogFile.fromFullPath(name or "twistd.log")
    # As twistd does for its own log file; without it the signal would end the program, or be ignored.
    signal.signal(signal.SIGUSR1, lambda *_: reactor.callFromThread(file.rotate))
    return make_log(file, reactor, level, form)


class LoggedService(MultiService):
    """The root of the application's services, which sets the log observer of the application that twistd makes.

    twistd makes the application after makeService and takes the observer from it before anything starts, so joining
    it is the only moment at which a plugin can set one.
    """

    def __init__(self, observer: ILogObserver | None = None) -> None:
        super().__init__()
        self._observer = observer

    def setServiceParent(self, parent: IServiceCollection) -> None:
        """Join the application (called by twistd)."""
        super().setServiceParent(parent)
        if self._observer is not None and isinstance(parent, Componentized):
            parent.setComponent(ILogObserver, self._observer)


def _is_of_twisted(namespace: str) -> bool:
    return namespace == "log_legacy" or namespace.partition(".")[0] == "twisted"
