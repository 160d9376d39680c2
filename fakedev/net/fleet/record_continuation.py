"""The record of a fleet that goes on after a restart: it gets what its state has, and then the events that follow.

The state has each event before the record has it, so a killed service leaves a record that lacks the last events at
most. After a loss of power either of the two may lack some.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from twisted.logger import Logger

from fakedev.net.fleet.recorder import Recorder
from fakedev.net.fleet.state_files import Saved, sha256_of
from fakedev.net.fleet.state_folder import StateFolder
from fakedev.net.system.files import LineFile
from fakedev.sim.events import Stamped
from fakedev.sim.record import head_line, read_record
from fakedev.spec.errors import Refused
from fakedev.spec.os_errors import CannotWrite

_REMEDY: Final = "start without a record, or move the folder of the state away to begin anew, with a new record"
_OTHER: Final = "it is the record of another run"
_log = Logger()


class CannotContinue(Exception):
    """A file is not the record of the fleet that goes on; the text names it, with the reason and the remedy."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}: {_REMEDY}")


class HistoryKeeper:
    """Keeps the events of a fleet: in its state, and then in its record.

    :ivar recorder: None: there is no record, or not yet.
    """

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self.recorder: Recorder | None = None

    def record(self, stamped: Stamped) -> None:
        """Keep an event; it is in the files when this returns."""
        self._state.record(stamped)
        if self.recorder is not None:
            self.recorder.record(stamped)


def continued_record(path: str, saved: Saved, epoch_seconds: float) -> LineFile:
    """The record of the whole history that a state has: the next event follows.

    Without a file one is made, if the state has all events.

    :param epoch_seconds: of the fleet.
    :raises CannotContinue: for a file that has another history, or lacks events that the state does not have.
    :raises CannotWrite: when the file cannot be written.
    """
    size = 0
    with suppress(OSError):  # whatever is wrong is told when it is opened
        size = os.stat(path).st_size
    if not size:
        if saved.last_event.sequence:
            raise CannotContinue(path, f"it has no events, and its fleet has had {saved.last_event.sequence}")
        file = LineFile("record", path, head_line(saved.head))
        file.write(b"".join(saved.lines))
        return file
    file = LineFile("record", path)
    try:
        _catch_up(file, path, saved, epoch_seconds)
    except BaseException:
        file.close()
        raise
    return file


def _catch_up(file: LineFile, path: str, saved: Saved, epoch_seconds: float) -> None:
    """Let a record have the events of the state, no more and no less."""
    before = saved.last_event.sequence
    last = before + len(saved.lines)
    count, end = _compared(path, saved, epoch_seconds)
    if count < before:
        raise CannotContinue(path, f"it ends with event {count}, and its fleet has had {last}")
    if count > last:
        if not last:
            raise CannotContinue(path, f"{_OTHER}: its fleet has had no event")
        _log.warn(
            "the state has lost events of the record {path}, which are removed from it: {count}",
            path=path, count=count - last,
        )  # fmt: skip
        try:
            file.cut(end)
        except OSError as reason:
            raise CannotWrite(path, reason) from None
    file.write(b"".join(saved.lines[count - before :]))


def _compared(path: str, saved: Saved, epoch_seconds: float) -> tuple[int, int]:
    """How many events a record has, and where the last one of the state ends in it, in bytes.

    :raises CannotContinue: when an event differs from that of the state.
    """
    before = saved.last_event.sequence
    last = before + len(saved.lines)
    number, at, end = 0, 0, 0
    try:
        with open(path, "rb") as lines:
            for number, line in enumerate(lines):  # the head is line 0
                at += len(line)
                if number == 0:
                    is_ours = read_record(line)[0].epoch_seconds == epoch_seconds
                elif number == before:
                    is_ours = sha256_of(line) == saved.last_event.sha256
                else:
                    is_ours = not before < number <= last or line == saved.lines[number - before - 1]
                if not is_ours:
                    raise CannotContinue(path, _OTHER)
                if number == last:
                    end = at
    except OSError as reason:
        raise CannotWrite(path, reason) from None
    except Refused as refusal:
        raise CannotContinue(path, f"it is no record ({refusal.text})") from None
    return number, end
