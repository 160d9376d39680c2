"""The files in which a service keeps the state of its fleet (doc/restarts.md).

For each generation N there are ``snapshot-N``, a line of JSON and the fleet at one tick as bytes, and
``since-N.jsonl``, a line for each event after it. ``tick`` has the last tick.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

import fakedev
from fakedev.net.system.files import PRIVATE
from fakedev.sim.fleet import Fleet
from fakedev.sim.snapshot import fleet_to_bytes
from fakedev.spec.errors import Refused
from fakedev.spec.os_errors import CannotWrite, plain_reason
from fakedev.spec.record_head import RecordHead

_FORMAT: Final = 2
_NAME: Final = re.compile(r"snapshot-([0-9]{1,15})|since-([0-9]{1,15})\.jsonl")
#: Of the digits of a tick in its file.
TICK_DIGITS: Final = 20
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
    """The checksum of a line."""
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
    """

    path: str
    content: bytes
    head: RecordHead
    last_event: LastEvent
    lines: Sequence[bytes]
    tick: int
    connected: frozenset[str]

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


def connected_line(workload_id: str) -> bytes:
    """The line for a workload that ends with its connection."""
    return orjson.dumps({"connected": workload_id}, option=orjson.OPT_APPEND_NEWLINE)


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
    path, unfinished = snapshot_path(folder, number), f"{folder}/.snapshot-{number}"
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE), "wb") as file:
            file.write(orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
        for older, paths in generations(folder).items():
            for each in paths if older < number else ():
                os.unlink(each)
    except OSError as reason:
        with suppress(OSError):
            os.unlink(unfinished)
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
        lines = [line for number in sorted(found) if number >= newest for line in _lines(since_path(folder, number))]
        digits = _content(f"{folder}/tick")[:TICK_DIGITS]
    except OSError as reason:
        raise CannotGoOn(f"{folder}: {plain_reason(reason)}") from None
    try:
        connected = {*map(str, fields["connected"])}
        connected |= {str(json.loads(line)["connected"]) for line in lines if line.startswith(_CONNECTED)}
        events = [line for line in lines if not line.startswith(_CONNECTED)]
        head = RecordHead.of(fields["head"])
        last_event = LastEvent(int(fields["sequence"]), str(fields["last-event"]))
        tick = max(int(fields["tick"]), int(digits) if digits.isdigit() else 0)
        return Saved(path, content, head, last_event, events, tick, frozenset(connected)), max(found)
    except (ValueError, KeyError, TypeError, Refused) as reason:
        raise CannotGoOn(f"{path}: it is no state of a fleet ({reason}): {_REMEDY}") from None


def _snapshot(path: str) -> tuple[dict[str, Any], bytes]:
    first, _, content = _content(path).partition(b"\n")
    try:
        fields = json.loads(first)
        form, version, code, checksum = (fields[each] for each in ("fakedev-state", "version", "code", "sha256"))
    except (ValueError, KeyError, TypeError) as reason:
        raise CannotGoOn(f"{path}: it is no snapshot of a fleet ({reason}): {_REMEDY}") from None
    if form != _FORMAT or code != code_version():
        other = f"fakedev {version}" if version != fakedev.__version__ else f"another build of fakedev {version}"
        raise CannotGoOn(f"{path}: it was written by {other}: start that one, or {_REMEDY}")
    if hashlib.sha256(content).hexdigest() != checksum:
        raise CannotGoOn(f"{path}: it is damaged: {_REMEDY}")
    return fields, content


def _lines(path: str) -> Iterator[bytes]:
    """The lines of a file, without an incomplete last one; none if there is no file."""
    content = _content(path)
    yield from content[: content.rfind(b"\n") + 1].splitlines(keepends=True)


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return b""


@cache
def code_version() -> str:
    """A checksum of the simulator's modules: a snapshot is read by those that have written it alone."""
    checksum = hashlib.sha256()
    root = Path(fakedev.__file__).parent
    for folder in ("sim", "spec"):
        for path in sorted((root / folder).rglob("*.py")):
            checksum.update(path.read_bytes())
    return checksum.hexdigest()[:16]
