"""Keeps the state of a fleet in a folder (snapshot and events), so that a service goes on after a restart or kill.

For each generation N there are ``snapshot-N``, a line of JSON and the fleet at one tick as bytes, and
``since-N.jsonl``, a line for each event after it. ``tick`` has the last tick. See doc/service.md.

Each event is in a file before anybody is answered, and the number of each tick. From time to time a copy of the
process writes a snapshot, so that few ticks must run again at the next start.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

import fakedev
from fakedev.base.atomic_files import own_folder, replace_whole, sync
from fakedev.base.errors import CannotWrite, Refused, plain_reason
from fakedev.base.framed_lines import checked, framed, is_checked, unframed
from fakedev.base.given_files import read_given
from fakedev.fleet.events import Stamped
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.record import event_line
from fakedev.fleet.snapshot import fleet_to_bytes
from fakedev.fleet.spec.limits import RecordHead
from fakedev.runtime.disk import PRIVATE, LineFile, open_own, replace_file
from fakedev.runtime.processes import Outcome, run_in_copy

_FORMAT: Final = 4
_NAME: Final = re.compile(r"snapshot-([0-9]{1,15})|since-([0-9]{1,15})\.jsonl")
#: The tick, the generation of the events, and the size of their file in bytes.
_LAST_TICK: Final = re.compile(rb"([0-9]{20}) ([0-9]{15}) ([0-9]{20})")
_CONNECTED: Final = b'{"connected":'


class CannotGoOn(Exception):
    """What a folder has cannot be used; the text has the reason and the remedy."""


@dataclass(frozen=True)
class LastEvent:
    """The last event of a fleet, by which its record is known again.

    :param sequence: 0: there was none.
    :param sha256: of its line; empty without one.
    """

    sequence: int = 0
    sha256: str = ""

    def followed_by(self, lines: Sequence[bytes]) -> LastEvent:
        """The last one after these lines of events."""
        return LastEvent(self.sequence + len(lines), sha256_of(lines[-1])) if lines else self


def sha256_of(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


@dataclass(frozen=True)
class Saved:
    """What a folder has.

    :param content: the bytes of the newest snapshot.
    :param head: the configuration that the fleet had then.
    :param last_event: the last one before it.
    :param lines: of the events since then.
    :param tick: the last tick of the service.
    :param connected: ids of workloads that ended with connections of the service.
    :param damages: what is lost, a sentence each.
    """

    path: str
    content: bytes
    head: RecordHead
    last_event: LastEvent
    lines: Sequence[bytes]
    tick: int
    connected: frozenset[str]
    damages: Sequence[str] = ()

    def damaged(self, reason: object) -> CannotGoOn:
        """The error for content that cannot be read."""
        return CannotGoOn(f"{self.path}: it is no state of a fleet ({reason}): {_REMEDY}")


_REMEDY: Final = "move its folder away to begin anew"


def generations(folder: str) -> dict[int, list[str]]:
    """The files of each generation, by its number."""
    found: dict[int, list[str]] = {}
    for name in os.listdir(folder):
        match = _NAME.fullmatch(name)
        if match is not None:
            found.setdefault(int(match[1] or match[2]), []).append(f"{folder}/{name}")
    return found


def snapshot_path(folder: str, number: int) -> str:
    """The path of a generation's snapshot."""
    return f"{folder}/snapshot-{number}"


def since_path(folder: str, number: int) -> str:
    """The path of the events after it."""
    return f"{folder}/since-{number}.jsonl"


def last_tick_line(tick: int, generation: int, size_bytes: int) -> bytes:
    """The content of the file of the last tick, always as long.

    :param generation, size_bytes: of the file of events.
    """
    return framed(b"%020d %015d %020d" % (tick, generation, size_bytes))


def write_snapshot(
    folder: str, number: int, fleet: Fleet, head: RecordHead, connected: Sequence[str], last_event: LastEvent
) -> None:
    """Write the snapshot of a generation, then remove the older generations.

    :param head: the configuration of the fleet.
    :param connected: ids of workloads that end with their connections.
    :raises CannotWrite: and the older ones stay.
    """
    content = fleet_to_bytes(fleet)
    fields = {
        "fakedev-state": _FORMAT, "version": fakedev.__version__, "code": code_version(), "tick": fleet.state.tick,
        "sha256": hashlib.sha256(content).hexdigest(), "head": head.fields(), "connected": list(connected),
        "sequence": last_event.sequence, "last-event": last_event.sha256,
    }  # fmt: skip
    path = snapshot_path(folder, number)
    try:
        replace_whole(Path(path), (checked(fields), content), PRIVATE, synced=True)
        for older, paths in generations(folder).items():
            for each in paths if older < number else ():
                os.unlink(each)
    except OSError as reason:
        raise CannotWrite(path, reason) from None


def read_saved(folder: str) -> tuple[Saved | None, int]:
    """What a folder has, None for nothing; and the number of its newest generation, 0 for none.

    :raises CannotGoOn: when that cannot be used.
    """
    try:
        found = generations(folder)
        newest = max((number for number in found if snapshot_path(folder, number) in found[number]), default=0)
        if not newest:
            return None, max(found, default=0)
        path = snapshot_path(folder, newest)
        fields, content = _snapshot(path)
        since = {number: _lines(since_path(folder, number)) for number in sorted(found) if number >= newest}
        lines = [line for some, _ in since.values() for line in some]
        shown, damages = _last_tick(folder, {number: sum(map(len, some)) for number, (some, _) in since.items()})
        damages += [damage for _, damage in since.values() if damage]
    except OSError as reason:
        raise CannotGoOn(f"{folder}: {plain_reason(reason)}") from None
    try:
        connected = {*map(str, fields["connected"])}
        connected |= {str(json.loads(line)["connected"]) for line in lines if line.startswith(_CONNECTED)}
        events = [line for line in lines if not line.startswith(_CONNECTED)]
        head = RecordHead.of(fields["head"])
        last_event = LastEvent(int(fields["sequence"]), str(fields["last-event"]))
        tick = max(int(fields["tick"]), shown, *(int(json.loads(line)["tick"]) for line in events[-1:]))
        return Saved(path, content, head, last_event, events, tick, frozenset(connected), damages), max(found)
    except (ValueError, KeyError, TypeError, Refused) as reason:
        raise CannotGoOn(f"{path}: it is no state of a fleet ({reason}): {_REMEDY}") from None


def _snapshot(path: str) -> tuple[dict[str, Any], bytes]:
    first, end, content = _content(path).partition(b"\n")
    try:
        fields, is_whole = json.loads(first), is_checked(first + end)
        form, version, code, checksum = (fields[key] for key in ("fakedev-state", "version", "code", "sha256"))
    except (ValueError, KeyError, TypeError) as reason:
        raise CannotGoOn(f"{path}: it is no snapshot of a fleet ({reason}): {_REMEDY}") from None
    if (form, code) != (_FORMAT, code_version()) and (is_whole or "crc32" not in fields):
        other = f"fakedev {version}" if version != fakedev.__version__ else f"another build of fakedev {version}"
        raise CannotGoOn(f"{path}: it was written by {other}: start that one, or {_REMEDY}")
    if not is_whole or hashlib.sha256(content).hexdigest() != checksum:
        raise CannotGoOn(f"{path}: it is damaged: {_REMEDY}")
    return fields, content


def _lines(path: str) -> tuple[list[bytes], str]:
    """The lines of a file, none if there is no file; and a sentence if an incomplete last one is left out.

    :raises CannotGoOn: for a damaged line.
    """
    *complete, rest = _content(path).split(b"\n")
    lines = [line + b"\n" for line in complete]
    for number, line in enumerate(lines):
        if not is_checked(line):
            offset = sum(map(len, lines[:number]))
            remedy = f"restore the file, or lose what follows: truncate -s {offset} {path}"
            raise CannotGoOn(f"{path}:{number + 1}: the line is damaged: {remedy}")
    return lines, f"{path} ends with an incomplete line, which is left out" if rest else ""


def _last_tick(folder: str, sizes: Mapping[int, int]) -> tuple[int, list[str]]:
    """The last tick of the service before, 0 when it is lost; and what is damaged.

    :param sizes: of the complete lines of events in bytes, by generation.
    """
    path = f"{folder}/tick"
    text = unframed(_content(path))
    match = None if text is None else _LAST_TICK.fullmatch(text)
    if match is None:
        return 0, [f"{path} is damaged: the ticks since the last snapshot or event are lost"]
    tick, generation, size_bytes = map(int, match.groups())
    events = since_path(folder, generation)
    size_now = sizes.get(generation, 0)
    if size_now < size_bytes and generation >= max(sizes):
        return tick, [f"{events} is damaged: events in its last {size_bytes - size_now} bytes are lost"]
    return tick, []


def _content(path: str) -> bytes:
    """The content of a file, none if there is no file.

    :raises OSError: also for a pipe, which would be waited for.
    """
    try:
        return read_given(path)
    except FileNotFoundError:
        return b""


def read_kept(path: str) -> str | None:
    """The content of a file that is kept with the fleet; None if there is no file.

    :raises CannotGoOn: when it cannot be read, or is damaged.
    """
    try:
        text = unframed(read_given(path))
    except FileNotFoundError:
        return None
    except OSError as reason:
        raise CannotGoOn(f"{path}: {plain_reason(reason)}") from None
    if text is None:
        raise CannotGoOn(f"{path}: it is damaged: restore it, or lose what it has: rm {path}")
    return text.decode()


#: The rooms whose modules make a fleet.
_SIMULATOR: Final = ("base", "fleet")


@cache
def code_version() -> str:
    """A checksum of the simulator's modules: a snapshot is read by those that have written it alone."""
    checksum = hashlib.sha256()
    root = Path(fakedev.__file__).parent
    for room in _SIMULATOR:
        for path in sorted((root / room).rglob("*.py")):
            checksum.update(path.read_bytes())
    return checksum.hexdigest()[:16]


#: The file with the health of devices in a cluster (fakedev/kubernetes/controller.py).
CLUSTER_HEALTH: Final = "cluster-health"
#: Seconds from one snapshot to the next.
EVERY_SECONDS: Final = 60.0
_NO_EVENT: Final = LastEvent()
#: Ticks of devices after which a snapshot is due, too: to run them again takes about a second.
_MOST_DEVICE_TICKS: Final = 2_000_000
#: Fixed cost of a tick, expressed in devices.
_DEVICES_OF_A_TICK: Final = 1000


class StateFolder(Service):
    """The folder of the state of a service, which is its own while it runs.

    :param path: is made if it is not there; its parent must exist.
    :param copy: see run_in_copy.
    :raises CannotWrite: when the folder cannot be used.
    :ivar path: of the folder.
    :ivar snapshots: how many were written, by whether that was possible.
    :ivar saved_at: when the last snapshot was begun, in seconds since 1970.
    """

    log = Logger()

    def __init__(
        self, path: str, clock: IReactorTime, copy: Callable[[Callable[[], None]], Outcome] = run_in_copy
    ) -> None:
        self.setName("state")
        self.path = path
        self._clock = clock
        self._copy = copy
        self._generation = 0
        self._since: LineFile | None = None
        self._outcome: Outcome | None = None
        self._first_tick = 0
        self.snapshots = {True: 0, False: 0}
        self.saved_at = 0.0
        self._tick_file = -1
        #: Files that are kept with the fleet and not written yet.
        self._to_keep: dict[str, str] = {}
        if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
            raise CannotWrite(path, "its folder does not exist: make that one first")
        own_folder(path)
        try:
            self._tick_file = open_own(f"{path}/tick")
        except BlockingIOError:
            raise CannotWrite(path, "another service keeps its state there: give each a folder of its own") from None
        except OSError as reason:
            raise CannotWrite(f"{path}/tick", reason) from None
        for unfinished in Path(path).glob(".snapshot-*.????????"):  # of a service that was killed
            unfinished.unlink()

    @property
    def problem(self) -> str:
        """Why the state is not kept at the moment; empty while it is."""
        return self._since.problem if self._since is not None else ""

    def read(self) -> Saved | None:
        """What the service before this one has left; None: nothing.

        :raises CannotGoOn: when it cannot be used.
        """
        saved, self._generation = read_saved(self.path)
        return saved

    def begin(
        self, fleet: Fleet, head: RecordHead, connected: Iterable[str] = (), last_event: LastEvent = _NO_EVENT,
        record: str = "",
    ) -> None:  # fmt: skip
        """Keep the state of a fleet from now on. Its first snapshot is complete when this returns.

        :param head: its configuration.
        :param connected: ids of workloads whose connections are gone; they are to end.
        :param last_event: that the fleet had so far.
        :param record: the file of its record, which is forced to the disk before each snapshot; empty: there is none.
        :raises CannotWrite: when that is not possible.
        """
        self._fleet, self._head = fleet, head
        self._last_event, self._record = last_event, record
        self._next_generation()
        self._write_tick()
        write_snapshot(self.path, self._generation, fleet, fleet.source or head, sorted(connected), last_event)

    def record(self, stamped: Stamped) -> None:
        """Keep an event; it is in the file when this returns."""
        if self._since is not None:
            line = event_line(stamped)
            self._since.write(line)
            self._last_event = LastEvent(stamped.sequence, sha256_of(line))

    def note_connected(self, workload_id: str) -> None:
        """Record that this workload is tied to its connection."""
        if self._since is not None:
            self._since.write(checked({"connected": workload_id}))

    def path_of(self, name: str) -> str:
        """The path of a file that is kept with the fleet."""
        return f"{self.path}/{name}"

    def kept(self, name: str) -> str | None:
        """What the service before this one has kept in a file; None: nothing.

        :raises CannotGoOn: when it cannot be read, or is damaged.
        """
        return read_kept(self.path_of(name))

    def keep(self, name: str, text: str) -> None:
        """Keep something that is not of the fleet in a file of its own, in place of what is there: soon if not now."""
        self._to_keep[name] = text
        self._write_tick()

    def forget(self, name: str) -> None:
        """Remove such a file."""
        with suppress(FileNotFoundError):
            os.unlink(self.path_of(name))

    def ticked(self, connected: Iterable[str]) -> None:
        """A tick has ended, and no event has come since: keep its number, and begin a snapshot if one is due.

        :param connected: ids of the workloads that end with their connections.
        """
        if self._since is None:
            return
        self._since.write()
        self._write_tick()
        self._look_after_copy()
        if self._outcome is not None or self._fleet.is_reloading:
            return
        ticks, age_seconds = self._fleet.state.tick - self._first_tick, self._clock.seconds() - self.saved_at
        most = _MOST_DEVICE_TICKS // (_DEVICES_OF_A_TICK + self._fleet.roster.device_count)
        if not self.problem and (ticks >= most or not 0 <= age_seconds < EVERY_SECONDS):
            try:
                self._next_generation()
                self._outcome = self._copy(partial(self._write_snapshot, sorted(connected)))
            except (OSError, CannotWrite) as reason:
                self._note_failure(str(reason))

    def stopService(self) -> None:
        """End. The next service goes on from here."""
        super().stopService()
        self._close()

    def _write_snapshot(self, connected: list[str]) -> None:
        """In a copy of the process."""
        if self._record:
            with suppress(OSError):  # the record may have been moved away
                sync(self._record)
        head = self._fleet.source or self._head
        write_snapshot(self.path, self._generation, self._fleet, head, connected, self._last_event)

    def _look_after_copy(self) -> None:
        outcome = None if self._outcome is None else self._outcome()
        if outcome is None:
            return
        self._outcome = None
        self.snapshots[outcome] += 1
        if not outcome:
            self._note_failure("the process that writes it has failed")

    def _note_failure(self, reason: str) -> None:
        self.log.error(
            "no snapshot of the state could be written: {reason}; the one before stays, and events are kept: "
            "the next start takes longer", reason=reason,
        )  # fmt: skip

    def _next_generation(self) -> None:
        """Write events into the next file from now on.

        :raises CannotWrite: when there can be none; the file before stays in use.
        """
        before = self._since
        self.saved_at, self._first_tick = self._clock.seconds(), self._fleet.state.tick
        self._since = LineFile("state", since_path(self.path, self._generation + 1))
        self._generation += 1
        if before is not None:
            before.close()

    def _write_tick(self) -> None:
        """Write the number of the tick and the files kept with the fleet; not while earlier events wait."""
        since = self._since
        if since is None or since.waits or since.has_ended:
            return
        try:
            for name in list(self._to_keep):
                replace_file(self.path_of(name), framed(self._to_keep[name].encode()).decode())
                del self._to_keep[name]
            os.pwrite(self._tick_file, last_tick_line(self._fleet.state.tick, self._generation, since.size), 0)
        except (OSError, CannotWrite) as reason:
            since.fail(reason if isinstance(reason, CannotWrite) else CannotWrite(f"{self.path}/tick", reason))
        else:
            since.works()

    def _close(self) -> None:
        if self._tick_file >= 0:
            os.close(self._tick_file)
            self._tick_file = -1
        if self._since is not None:
            self._since.close()
            self._since = None
