"""A record as a scenario: what happened to a service becomes a timeline that people can change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from fakedev.base.errors import Refused
from fakedev.base.units import format_duration
from fakedev.fleet.door import fault_id_of, workload_id_of
from fakedev.fleet.events import (
    ChangeClock,
    ChangeNodes,
    ClearFaults,
    DivideBoard,
    DropWorkloads,
    InjectFault,
    Reload,
    Reset,
    Stamped,
    StartWorkload,
    StopWorkloads,
)
from fakedev.fleet.spec.fault_kinds import FAULT_FIELDS, fields_of_fault
from fakedev.fleet.spec.workload_fields import WORKLOAD_FIELDS, fields_of_workload
from fakedev.schema.declare import Field, FieldKind

#: What a speed of the clock is called in its event.
_SPEED: Final = "speed "
#: The field of a workload with the faults that it brings.
_FAULTS: Final = "faults"
#: What no scenario can do.
_WORDS: Final = {
    Reset: "the fleet was reset", ChangeNodes: "nodes of a cluster came or left", DivideBoard: "a board was divided",
}  # fmt: skip


def timeline_of(
    events: Iterable[Stamped], tick_seconds: float, reloads: Mapping[int, str]
) -> Iterator[dict[str, Any]]:
    """The entries of a timeline, as plain values: the same events in the same ticks.

    :param reloads: the file of each reload's configuration, by the sequence number of its event.
    :raises Refused: for an event that no scenario can have.
    """
    names: dict[str, str] = {}
    for stamped in events:
        at = {"at": _time(stamped.tick * tick_seconds)}
        match stamped.event:
            case StartWorkload(workload):
                names[workload_id_of(stamped.sequence)] = name = f"w{stamped.sequence}"
                yield {**at, "as": name, "run": _written(fields_of_workload(workload), WORKLOAD_FIELDS)}
            case InjectFault(fault):
                names[fault_id_of(stamped.sequence)] = name = f"f{stamped.sequence}"
                yield {**at, "as": name, "fault": _written(fields_of_fault(fault), FAULT_FIELDS)}
            case StopWorkloads(ids) | DropWorkloads(ids):
                yield from ({**at, "stop": names.get(workload_id, workload_id)} for workload_id in ids)
            case ClearFaults(ids):
                yield from ({**at, "clear": _fault(fault_id, names)} for fault_id in ids)
            case Reload():
                yield {**at, "reload": reloads[stamped.sequence]}
            case ChangeClock(_, _, reason):
                # The others are of the program's own clock: its start, and advances.
                if reason.startswith(_SPEED):
                    yield {**at, "speed": float(reason.removeprefix(_SPEED))}
            case Reset() | ChangeNodes() | DivideBoard():
                what = _WORDS[type(stamped.event)]
                raise Refused("bad-argument", f"event {stamped.sequence}: {what}, which no scenario can do")


def _fault(fault_id: str, names: Mapping[str, str]) -> str:
    if fault_id not in names:
        text = f"the record clears the fault {fault_id}, which is of its configuration: a scenario cannot name it"
        raise Refused("bad-argument", text)
    return names[fault_id]


def _written(fields: Mapping[str, object], known: Mapping[str, Field]) -> dict[str, object]:
    """Fields as a configuration has them: durations as texts, whole numbers without a fraction."""
    found = {name: _value(value, known[name].kind) for name, value in fields.items() if name != _FAULTS}
    brought = fields.get(_FAULTS, ())
    if isinstance(brought, list | tuple) and brought:
        found[_FAULTS] = [_written(fault, FAULT_FIELDS) for fault in brought]
    return found


def _value(value: object, kind: FieldKind) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if kind is FieldKind.DURATION:
        return _time(value)
    return int(value) if float(value).is_integer() else value


def _time(seconds: float) -> str:
    return format_duration(seconds) if seconds else "0s"
