"""Writes the record of a run to a file, event by event."""

from __future__ import annotations

import os

from twisted.logger import Logger

from fakedev.sim.events import Stamped
from fakedev.sim.record import event_line, head_line
from fakedev.spec.record_head import RecordHead


class Recorder:
    """A file with everything that is needed to run the same history again.

    :raises OSError: when the file cannot be written.
    :ivar failed: whether nothing more is written, because a write failed or the run has ended.
    """

    log = Logger()

    def __init__(self, path: str, head: RecordHead) -> None:
        self._path = path
        self.failed = False
        # Readable by its owner only: it contains the tokens of the configuration.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        self._file.write(head_line(head))

    def record(self, stamped: Stamped) -> None:
        """Write one event; it is in the file when this returns."""
        if self.failed:
            return
        try:
            self._file.write(event_line(stamped))
        except OSError as error:
            self.failed = True
            self.log.error("the record {path} ends here: {error}", path=self._path, error=str(error))

    def close(self) -> None:
        """End the record."""
        self.failed = True
        self._file.close()
