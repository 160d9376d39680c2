"""The record of a run, as JSON Lines with checksums, and its replay.

The first line has all that decides a history: the text of the configuration's files, the environment variables in use,
the overrides of the command line, and the epoch. Each further line is one stamped event. A replay gives the same state
at each tick, and so the same pages to the byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import orjson

from fakedev.base.errors import Refused
from fakedev.base.framed_lines import checked, is_checked
from fakedev.fleet.compiled import CompiledFleet
from fakedev.fleet.events import Stamped, event_from_fields, event_to_fields, no_reload
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.limits import RecordHead
from fakedev.fleet.workloads.workload import Verdict

_FORMAT: Final = 2
#: Of records without checksums: older versions wrote them, and people may.
_UNCHECKED: Final = 1


def head_line(head: RecordHead) -> bytes:
    """The first line of a record."""
    return checked({"fakedev-record": _FORMAT, **head.fields()})


def event_line(stamped: Stamped) -> bytes:
    """A record's line for one event."""
    return checked(event_to_fields(stamped))


def read_record(
    text: bytes, compile_fleet: Callable[[RecordHead], CompiledFleet] = no_reload
) -> tuple[RecordHead, list[Stamped]]:
    """A record's head and events.

    :raises Refused: for a line that is not part of a record; the text has its number.
    """
    lines = text.splitlines(keepends=True)
    if not lines:
        raise Refused("bad-argument", "line 1: the record is empty")
    fields = _fields(1, lines[0])
    form = fields.get("fakedev-record")
    if form not in (_FORMAT, _UNCHECKED):
        raise Refused("bad-argument", f"line 1: not a record of format {_FORMAT}: no \"fakedev-record\": {_FORMAT}")
    for number, line in enumerate(lines if form == _FORMAT or "crc32" in fields else (), 1):
        if form != _FORMAT or not is_checked(line.removesuffix(b"\n") + b"\n"):
            before = f", or take the lines before it: head -n {number - 1}" if number > 1 else ""
            raise Refused("bad-argument", f"line {number}: its checksum does not fit: restore it{before}")
    try:
        head = RecordHead.of(fields)
    except Refused as refusal:
        raise Refused(refusal.code, f"line 1: {refusal.text}") from None
    return head, read_events(lines[1:], 2, compile_fleet)


def read_events(
    lines: Sequence[bytes], first: int, compile_fleet: Callable[[RecordHead], CompiledFleet] = no_reload
) -> list[Stamped]:
    """The events of some lines of a record.

    :param first: the number of the first line.
    :raises Refused: for a line that has no event; the text has its number.
    """
    events: list[Stamped] = []
    for number, line in enumerate(lines, first):
        fields = _fields(number, line)
        try:
            stamped = event_from_fields(fields, compile_fleet)
        except Refused as refusal:
            raise Refused(refusal.code, f"line {number}: {refusal.text}", refusal.where) from None
        if events and (stamped.tick < events[-1].tick or stamped.sequence != events[-1].sequence + 1):
            raise Refused("bad-argument", f"line {number}: tick or sequence number is out of order")
        events.append(stamped)
    return events


#: What commands say of such a line.
INCOMPLETE: Final = "the last line is incomplete, and left out"


def without_incomplete_line(text: bytes) -> bytes:
    """A record without its last line, when the program was killed or the disk was full while it was written."""
    lines, end, rest = text.rpartition(b"\n")
    if not end or not rest:
        return text
    try:
        orjson.loads(rest)
    except orjson.JSONDecodeError:
        return lines + end
    return text


def _fields(number: int, line: bytes) -> dict[str, object]:
    try:
        fields = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        hint = "; a record is what --record has written" if number == 1 else ""
        raise Refused("bad-argument", f"line {number}: not JSON: {error}{hint}") from None
    if not isinstance(fields, dict):
        raise Refused("bad-argument", f"line {number}: not a JSON object")
    return fields


class Replay:
    """Applies the events of a record to a fleet, at the ticks in which they arrived."""

    def __init__(self, events: Sequence[Stamped]) -> None:
        self._events: Iterator[Stamped] = iter(events)
        self._next = next(self._events, None)

    def advance(self, fleet: Fleet) -> list[Verdict]:
        """Apply the events of the fleet's tick, then do the next tick.

        :raises Refused: if an event does not fit the fleet, because the record is of another configuration.
        """
        self.apply_due(fleet)
        return fleet.advance()

    def apply_due(self, fleet: Fleet) -> None:
        """Apply the events that arrived during the fleet's current tick."""
        while self._next is not None and self._next.tick <= fleet.state.tick:
            stamped = self._next
            try:
                fits = fleet.apply(stamped.event, None) == stamped
            except Refused as refusal:
                text = f"event {stamped.sequence} of the record does not fit this fleet: {refusal.text}"
                raise Refused(refusal.code, text, refusal.where) from None
            if not fits:
                raise Refused("bad-argument", f"event {stamped.sequence} of the record does not fit this fleet")
            self._next = next(self._events, None)
