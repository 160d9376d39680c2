"""``fakedev check``: finds damage in files of a service: states, logs of queues, records, journals."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import orjson

from fakedev.base.console import write_text
from fakedev.base.errors import Refused, plain_reason
from fakedev.base.framed_lines import is_checked
from fakedev.base.given_files import open_given, read_given
from fakedev.config.start import compiled_source
from fakedev.fleet.journal import JournalEntry
from fakedev.fleet.record import read_record, without_incomplete_line
from fakedev.fleet.state_folder import CLUSTER_HEALTH, CannotGoOn, read_kept, read_saved
from fakedev.queues.log import DamagedLog, replay
from fakedev.queues.log_file import LOG_NAME, damage_text
from fakedev.schema.options import Failed, Operand, command

#: A line of a journal names its devices, which take some 2 MiB in the largest fleets.
_LONGEST_LINE: Final = 2**24
_NEITHER: Final = "it is no journal, record, state or log of a queue"
_INCOMPLETE: Final = "but for an incomplete last line"
_RECORD: Final = b'{"fakedev-record"'
_CHECKED_RECORD: Final = _RECORD + b":2,"
_ENTRY: Final = set(JournalEntry._fields)


@command(
    "fakedev check",
    "Checks the state of a fleet (its folder), the log of a durable queue, a record or a journal for damage.",
    Operand("paths", "PATH", "what a service has written", count="+"),
)
def check(options: Namespace) -> None:
    """Print a line for each.

    :raises Failed: when one of them is not whole.
    """
    damaged = [path for path in options.paths if not _is_whole(path)]
    if damaged:
        raise Failed(f"{len(damaged)} of {len(options.paths)} not whole")


def _is_whole(path: str) -> bool:
    try:
        text = _kind(path)(path)
    except (CannotGoOn, Refused, ValueError, OSError) as error:
        reason = str(error) if isinstance(error, CannotGoOn) else f"{path}: {plain_reason(error)}"
        write_text(sys.stdout, f"{reason}\n")
        return False
    write_text(sys.stdout, f"{path}: {text}\n")
    return True


def _kind(path: str) -> Callable[[str], str]:
    """What reads a path."""
    if os.path.isdir(path):
        return _queue if os.path.exists(os.path.join(path, LOG_NAME)) else _state
    if os.path.basename(path) == LOG_NAME:
        return _queue
    with open_given(path) as file:
        begin = file.read(len(_RECORD))
    if begin[:1] != b"{":
        raise ValueError(_NEITHER)
    return _record if begin == _RECORD else _journal


def _state(folder: str) -> str:
    saved, _ = read_saved(folder)
    if saved is None:
        raise ValueError("it has no state of a fleet and no log of a queue")
    read_kept(f"{folder}/{CLUSTER_HEALTH}")
    if saved.damages:
        raise ValueError("; ".join(saved.damages))
    return f"the state of a fleet at tick {saved.tick}, whole: {saved.last_event.sequence + len(saved.lines)} events"


def _queue(path: str) -> str:
    file = path if os.path.basename(path) == LOG_NAME else os.path.join(path, LOG_NAME)
    with open_given(file) as log:
        try:
            found = replay(log)
        except DamagedLog as damage:
            raise ValueError(damage_text(damage, file)) from None
        size = os.fstat(log.fileno()).st_size
    rest = f", {_INCOMPLETE}" if found.good_bytes < size else ""
    return f"the log of the queue '{found.queue}', whole{rest}: {len(found.jobs)} jobs"


def _record(path: str) -> str:
    content = read_given(path)
    text = without_incomplete_line(content)
    _, events = read_record(text, compiled_source)
    whole = "whole" if text.startswith(_CHECKED_RECORD) else "without checksums"
    return f"a record, {whole}{'' if text == content else f', {_INCOMPLETE}'}: {len(events)} events"


def _journal(path: str) -> str:
    number = without_checksums = 0
    rest = ""
    with open_given(path) as file:
        while line := file.readline(_LONGEST_LINE):
            if len(line) == _LONGEST_LINE:
                raise ValueError(_NEITHER)
            if not line.endswith(b"\n"):
                rest = f", {_INCOMPLETE}"
                break
            number += 1
            if is_checked(line):
                continue
            # Lines of older versions come first in a file that goes on.
            if number > without_checksums + 1 or not _is_unchecked_entry(line):
                raise ValueError(f"line {number}: its checksum does not fit")
            without_checksums = number
    if without_checksums:
        rest += f", the first {without_checksums} without checksums"
    return f"a journal, whole{rest}: {number} entries"


def _is_unchecked_entry(line: bytes) -> bool:
    with suppress(ValueError, AttributeError):
        return bool(orjson.loads(line).keys() == _ENTRY)
    return False
