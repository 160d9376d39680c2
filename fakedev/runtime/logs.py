"""The program's log: destination, level, and entries as text or JSON, alone and under twistd."""

from __future__ import annotations

import itertools
import json
import os
import signal
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, TextIO

from twisted.application.service import IServiceCollection, MultiService
from twisted.internet.interfaces import IReactorFromThreads
from twisted.logger import ILogObserver, LogEvent, Logger, LogLevel, formatEvent, globalLogBeginner
from twisted.python.components import Componentized
from twisted.python.failure import Failure
from zope.interface import implementer

from fakedev.base.errors import plain_reason

#: A log file of this size is rotated, as twistd does it.
ROTATE_BYTES: Final = 1_000_000
#: Longer texts are cut, because they may come from a peer.
LONGEST_TEXT = 4000
#: Before each line of a traceback, so that it does not look like an entry.
TRACEBACK_INDENT = "    | "

#: The fields that Twisted's older logging module adds to an event.
_OLD_FIELDS = frozenset({"message", "time", "system", "format", "isError", "failure", "why", "logLevel", "debug"})
#: Our JSON keys; fields of an event with these names are left out.
_KEYS = frozenset({"time", "level", "logger", "text", "traceback"})


def text_line(event: Mapping[str, Any]) -> str:
    """``TIME LEVEL TEXT`` and a newline; the lines of a traceback follow, indented."""
    lines = [f"{_time(event)} {_level(event):<5} {escaped(_text(event))}"]
    lines += (f"{TRACEBACK_INDENT}{escaped(line)}" for line in _traceback(event).splitlines())
    return "\n".join(lines) + "\n"


def json_line(event: Mapping[str, Any]) -> str:
    """One object on one line; see :func:`log_entry`."""
    return json.dumps(log_entry(event)) + "\n"


def log_entry(event: Mapping[str, Any]) -> dict[str, Any]:
    """Time, level, logger, text, the event's plain fields, and the traceback if there is one."""
    entry: dict[str, Any] = {
        "time": _time(event),
        "level": _level(event),
        "logger": event.get("log_namespace", ""),
        "text": _shortened(_text(event)),
    }
    for name, value in event.items():
        if name in _OLD_FIELDS or name in _KEYS or name.startswith("log_"):
            continue
        if isinstance(value, bytes):
            entry[name] = _shortened(value.decode("latin-1"))
        elif isinstance(value, str):
            entry[name] = _shortened(value)
        elif value is None or isinstance(value, (bool, int)):
            entry[name] = value
        elif isinstance(value, float):
            # JSON has no infinities; NaN differs from itself.
            entry[name] = value if value - value == 0 else str(value)
    if traceback := _traceback(event):
        entry["traceback"] = traceback
    return entry


def escaped(text: str) -> str:
    """A text on one line: characters that do not print are escaped as Python does it, and long texts are cut."""
    text = _shortened(text)
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def _shortened(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}... ({len(text)} characters)"


def _time(event: Mapping[str, Any]) -> str:
    moment = datetime.fromtimestamp(event.get("log_time", 0.0), UTC)
    return f"{moment.strftime('%Y-%m-%dT%H:%M:%S')}.{moment.microsecond // 1000:03d}Z"


def _level(event: Mapping[str, Any]) -> str:
    level = event.get("log_level", LogLevel.info)
    return str(level.name)


def _text(event: Mapping[str, Any]) -> str:
    text = formatEvent(dict(event))
    if text:
        return text
    failure = event.get("log_failure")
    return f"{type(failure.value).__name__}: {failure.value}" if isinstance(failure, Failure) else ""


def _traceback(event: Mapping[str, Any]) -> str:
    failure = event.get("log_failure")
    if not isinstance(failure, Failure):
        return ""
    try:
        return str(failure.getTraceback())
    except Exception as reason:  # an exception whose __str__ fails must not lose the entry
        return f"no traceback could be made: {type(reason).__name__}"


@implementer(ILogObserver)
class LogLines:
    """Writes events of a level and above to a stream, a line each.

    Twisted's own events of level info (for each port and factory) count as debug.
    """

    def __init__(self, stream: TextIO | LogFile, level: str = "info", form: str = "text") -> None:
        self._stream = stream
        self._lowest = LogLevel.levelWithName(level)
        self._line: Callable[[Mapping[str, Any]], str] = {"text": text_line, "json": json_line}[form]

    def __call__(self, event: LogEvent) -> None:
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
            # The reader of the log has gone, or the disk is full: no reason to stop, and no place to report it.
            return


class LogFile:
    """The log file under twistd, which is also moved or truncated by programs like logrotate.

    It is opened for appending, so that after a truncation (copytruncate) lines begin at the new end of the file. A file
    that it makes has the mode of the one before, whatever the umask of a daemon is.

    :param rotate_bytes: a file of this size is renamed ``PATH.1``, which becomes ``PATH.2``, and so on.
    :raises OSError: when the file cannot be opened.
    """

    def __init__(self, path: str, rotate_bytes: int = ROTATE_BYTES) -> None:
        self._path = path
        self._rotate_bytes = rotate_bytes
        self._file = self._opened(0o666)

    def write(self, text: str) -> None:
        """Add an entry, perhaps to a new file; where none can be made the old one grows.

        :raises OSError: when the disk is full.
        """
        if os.fstat(self._file.fileno()).st_size >= self._rotate_bytes:
            with suppress(OSError):
                self._rotate()
        self._file.write(text)
        self._file.flush()

    def flush(self) -> None:
        """Required of a stream; nothing is buffered here."""

    def signalled(self) -> None:
        """Open the file again if another program has moved it, else rotate it. Without a new file the old one stays."""
        try:
            is_moved = not os.path.samestat(os.stat(self._path), os.fstat(self._file.fileno()))
        except OSError:
            is_moved = True
        try:
            if is_moved:
                self._open_again()
            else:
                self._rotate()
        except OSError as error:
            Logger().warn(
                "the log file {path} cannot be opened again: {reason}; lines go to the moved file",
                path=self._path, reason=plain_reason(error),
            )  # fmt: skip

    def _rotate(self) -> None:
        count = next(number for number in itertools.count(1) if not os.path.lexists(f"{self._path}.{number}"))
        for number in range(count, 1, -1):
            os.rename(f"{self._path}.{number - 1}", f"{self._path}.{number}")
        os.rename(self._path, f"{self._path}.1")
        self._open_again()

    def _open_again(self) -> None:
        old, is_new = self._file, not os.path.exists(self._path)
        mode = stat.S_IMODE(os.fstat(old.fileno()).st_mode)
        self._file = self._opened(mode)
        if is_new:
            os.fchmod(self._file.fileno(), mode)
        old.close()

    def _opened(self, mode: int) -> TextIO:
        return open(
            self._path, "a", encoding="utf-8", errors="backslashreplace",
            opener=lambda path, flags: os.open(path, flags, mode),
        )  # fmt: skip


def begin_logging(level: str = "info", form: str = "text") -> None:
    """Log to standard error; to be called once, when the program starts.

    Earlier entries are written now. Standard output stays as it is: it is for data.
    """
    globalLogBeginner.beginLoggingTo([LogLines(sys.stderr, level, form)], redirectStandardIO=False)


def twistd_log(
    twistd_options: Mapping[str, Any], reactor: IReactorFromThreads, level: str = "info", form: str = "text"
) -> ILogObserver | None:
    """The observer for the application under twistd, or None when its options ask for another kind of log.

    ``--logfile``, and twistd.log of a daemon, get our lines; twistd handles ``--syslog`` and ``--logger``.

    :param twistd_options: ``options.parent`` in makeService.
    :raises SystemExit: 1, with a line of explanation, when the log file cannot be opened.
    """
    if twistd_options.get("syslog") or twistd_options.get("logger"):
        return None
    name = twistd_options.get("logfile")
    stays = twistd_options.get("nodaemon") or twistd_options.get("debug")
    if name == "-":
        return LogLines(sys.stdout, level, form) if stays else None
    if not name and stays:
        return LogLines(sys.stderr, level, form)
    path = os.path.abspath(name or "twistd.log")
    try:
        file = LogFile(path)
    except OSError as error:
        reason = f"{plain_reason(error)}; give another one: twistd --logfile"
        raise SystemExit(f"fakedev: the log file {path} cannot be written: {reason}") from None
    # As twistd does for its own log file; without it the signal would end the program, or be ignored.
    signal.signal(signal.SIGUSR1, lambda *_: reactor.callFromThread(file.signalled))
    return LogLines(file, level, form)


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
