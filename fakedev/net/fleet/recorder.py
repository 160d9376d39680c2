"""Writes the record of a run to a file, event by event."""

from __future__ import annotations

from fakedev.net.system.files import LineFile
from fakedev.sim.events import Stamped
from fakedev.sim.record import event_line, head_line
from fakedev.spec.record_head import RecordHead


class Recorder:
    """A file with everything that is needed to run the same history again.

    :meth:`open` must come before the first event: a program that cannot start leaves no file behind.
    """

    def __init__(self, path: str, head: RecordHead) -> None:
        self.path = path
        self._head = head
        self._file: LineFile | None = None

    @property
    def problem(self) -> str:
        """Why no more events are written; empty while they are."""
        return self._file.problem if self._file else ""

    def open(self) -> None:
        """Make the file and write its head, unless it goes on.

        :raises CannotWrite: when it cannot be written, or there is a record already.
        """
        if self._file is None:
            self._file = LineFile("record", self.path, head_line(self._head))

    def go_on(self, file: LineFile) -> None:
        """Write into the record of the service before, from now on; it is open already."""
        self._file = file

    def record(self, stamped: Stamped) -> None:
        """Write one event; it is in the file when this returns."""
        assert self._file is not None
        self._file.write(event_line(stamped))

    def close(self) -> None:
        """End the record."""
        if self._file is not None:
            self._file.close()
