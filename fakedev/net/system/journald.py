"""Entries of the log as fields of systemd's journal, by its native protocol.

The protocol: systemd.io/JOURNAL_NATIVE_PROTOCOL; names of fields: systemd.journal-fields(7). An entry is a datagram.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import sys
from collections.abc import Mapping
from typing import Any, Final

from twisted.python.failure import Failure

from fakedev.net.system.log_lines import log_entry

SOCKET_PATH: Final = "/run/systemd/journal/socket"
#: The levels of syslog, by ours.
_PRIORITIES: Final = {"debug": 7, "info": 6, "warn": 4, "error": 3, "critical": 2}
#: Of names of fields; the journal drops fields with longer ones.
_LONGEST_NAME: Final = 64
_NOT_IN_NAMES: Final = re.compile(r"[^A-Z0-9_]")
_LENGTH: Final = struct.Struct("<Q")


def is_journal(stream: object, environ: Mapping[str, str]) -> bool:
    """Whether a stream leads to the journal: systemd says its device and inode in JOURNAL_STREAM (systemd.exec(5))."""
    try:
        status = os.fstat(stream.fileno())  # type: ignore[attr-defined]  # what has none raises
    except (AttributeError, OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def journal_fields(event: Mapping[str, Any]) -> dict[str, str]:
    """An entry as fields of the journal, which has the time itself; ours begin with ``FAKEDEV_``."""
    entry = log_entry(event)
    fields = {
        "MESSAGE": entry.pop("text"),
        "PRIORITY": str(_PRIORITIES[entry.pop("level")]),
        "SYSLOG_IDENTIFIER": os.path.basename(sys.argv[0]) or "fakedev",
    }
    del entry["time"]
    failure = event.get("log_failure")
    if isinstance(failure, Failure) and failure.frames:
        # Where it failed; Twisted does not say where others are logged.
        function, file, line = failure.frames[-1][:3]
        fields |= {"CODE_FILE": str(file), "CODE_LINE": str(line), "CODE_FUNC": str(function)}
    for name, value in entry.items():
        if value is not None:
            fields[f"FAKEDEV_{_NOT_IN_NAMES.sub('_', name.upper())}"[:_LONGEST_NAME]] = _plain(value)
    return fields


def _plain(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def datagram(fields: Mapping[str, str]) -> bytes:
    """Fields in the native protocol: ``NAME=value``; a value with a newline is given by its length."""
    return b"".join(_field(name.encode(), value.encode("utf-8", "backslashreplace")) for name, value in fields.items())


def _field(name: bytes, value: bytes) -> bytes:
    if b"\n" in value:
        return b"%b\n%b%b\n" % (name, _LENGTH.pack(len(value)), value)
    return b"%b=%b\n" % (name, value)


class JournalSocket:
    """Sends entries to journald. It never waits: what has no room is the caller's to write elsewhere.

    :param path: of journald's socket.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def send(self, event: Mapping[str, Any]) -> bool:
        """Return whether journald has taken an event: not when it does not run, is too busy, or the entry too large."""
        try:
            self._socket.sendto(datagram(journal_fields(event)), self._path)
        except OSError:
            return False
        return True
