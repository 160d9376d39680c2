"""The program's log: where it goes, from which level on, and in which form, alone and under twistd."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from twisted.application.service import MultiService
from twisted.internet.interfaces import IReactorCore, IReactorTime
from twisted.logger import ILogObserver, LogEvent, LogLevel, globalLogBeginner
from twisted.python.components import Componentized
from twisted.python.logfile import LogFile
from zope.interface import implementer

from fakedev.net.system.log_lines import json_line, text_line
from fakedev.net.system.log_repeats import RepeatLimit


@implementer(ILogObserver)
class LogLines:
    """Writes events of a level and above to a stream, a line each.

    What Twisted itself reports at level info (each port, each factory) counts as debug.
    """

    def __init__(self, stream: TextIO | LogFile, level: str = "info", form: str = "text") -> None:
        self._stream = stream
        self._lowest = LogLevel.levelWithName(level)
        self._line: Callable[[Mapping[str, Any]], str] = {"text": text_line, "json": json_line}[form]

    def __call__(self, event: LogEvent) -> None:
        """Write one event (called by Twisted)."""
        level = event.get("log_level") or LogLevel.info
        if level is LogLevel.info and _is_of_twisted(event.get("log_namespace") or ""):
            level = LogLevel.debug
            event = {**event, "log_level": level}
        if level < self._lowest:
            return
        try:
            self._stream.write(self._line(event))
            self._stream.flush()
        except (OSError, ValueError):
            # Whoever read the log has left, or the disk is full: no reason to stop, and nowhere to say it.
            return


def make_log(stream: TextIO | LogFile, reactor: Any, level: str = "info", form: str = "text") -> ILogObserver:
    """The observer that the whole program logs to: repeats limited, then written as lines."""
    limit = RepeatLimit(LogLines(stream, level, form), IReactorTime(reactor))
    if IReactorCore.providedBy(reactor):
        reactor.addSystemEventTrigger("after", "shutdown", limit.flush)
    return limit


def begin_logging(reactor: Any, level: str = "info", form: str = "text", stream: TextIO | None = None) -> None:
    """Begin to log to standard error (or another stream) in a program of our own; once, at its start.

    What was logged before is written now. Standard output stays as it is: it is for data.
    """
    observer = make_log(stream or sys.stderr, reactor, level, form)
    globalLogBeginner.beginLoggingTo([observer], redirectStandardIO=False)


def twistd_log(
    twistd_options: Mapping[str, Any], reactor: Any, level: str = "info", form: str = "text"
) -> ILogObserver | None:
    """The observer for the application under twistd, or None when its options ask for another kind of log.

    ``--logfile``, and twistd.log of a daemon, get our lines; ``--syslog`` and ``--logger`` remain twistd's matter.

    :param twistd_options: ``options.parent``, as makeService finds it.
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
    # As twistd does for its own log file; without it the signal would end the program.
    if not signal.getsignal(signal.SIGUSR1):
        signal.signal(signal.SIGUSR1, lambda *_: reactor.callFromThread(file.rotate))
    return make_log(file, reactor, level, form)


class LoggedService(MultiService):
    """The root of the application's services; it brings its log observer to the application that twistd makes.

    twistd asks the application for its observer after makeService and before anything starts, and makes the
    application itself, so this is the one moment at which a plugin can give it one.
    """

    def __init__(self, observer: ILogObserver | None = None) -> None:
        super().__init__()
        self._observer = observer

    def setServiceParent(self, parent: Any) -> None:
        """Join the application (called by twistd)."""
        super().setServiceParent(parent)
        if self._observer is not None and isinstance(parent, Componentized):
            parent.setComponent(ILogObserver, self._observer)


def _is_of_twisted(namespace: str) -> bool:
    return namespace == "log_legacy" or namespace.partition(".")[0] == "twisted"
