"""The entries of the journal: of events, of churn, and of the ends of workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, overload

from fakedev.sim.entities.state import Positions
from fakedev.sim.events import (
    ChangeClock,
    ChangeNodes,
    ClearFault,
    ClearFaults,
    DropWorkload,
    DropWorkloads,
    InjectFault,
    Reload,
    Reset,
    Stamped,
    StartWorkload,
    StopWorkload,
    StopWorkloads,
)
from fakedev.sim.workloads.workload import Verdict, Workload

_LONGEST_TEXT: Final = 400
#: Workloads or faults that the scope of one event names; of more it has the number.
_MAX_IDS: Final = 50
#: The end of a workload; the entry of its start has its devices.
ENDED: Final = "ended"


class JournalEntry(NamedTuple):
    """An entry of the journal: a tuple, because thousands are made in a tick in which thousands of workloads end.

    :param kind: one of JOURNAL_KINDS: an event, as in the record, a change of a fault, a change of a device's
        quantity, or the end of a workload.
    :param scope: the devices, workload or fault that it concerns.
    :param cause: the event, fault or quantity that caused it; empty if unknown.
    :param devices: device words for all devices and parts that it concerns, joined by commas; empty if the entry of the
        workload's or fault's start has them, or if the entry is brief.
    """

    tick: int
    seconds: float
    kind: str
    scope: str
    cause: str
    text: str
    devices: str = ""

    @property
    def size(self) -> int:
        """The number of characters of its devices."""
        return len(self.devices)

    def brief(self) -> JournalEntry:
        """The same entry without its devices."""
        return self._replace(devices="")

    def fields(self) -> dict[str, object]:
        """The entry as plain values, for a line of the journal."""
        return {
            "tick": self.tick,
            "seconds": self.seconds,
            "kind": self.kind,
            "scope": self.scope,
            "cause": self.cause,
            "text": self.text,
            "devices": self.devices.split(",") if self.devices else [],
        }


class Ends(Sequence[JournalEntry]):
    """The entries of the workloads that ended in a tick; each is worded when it is read.

    The entries of their starts have their devices.

    :param causes: ids of the faults that ended workloads, by the workload's id.
    """

    def __init__(self, tick: int, seconds: float, verdicts: Sequence[Verdict], causes: Mapping[str, str]) -> None:
        self._tick, self._seconds = tick, seconds
        self._verdicts, self._causes = verdicts, causes

    def __len__(self) -> int:
        return len(self._verdicts)

    @overload
    def __getitem__(self, place: int) -> JournalEntry: ...

    @overload
    def __getitem__(self, place: slice) -> Ends: ...

    def __getitem__(self, place: int | slice) -> JournalEntry | Ends:
        if isinstance(place, slice):
            return Ends(self._tick, self._seconds, self._verdicts[place], self._causes)
        ended, name, code, text, _ = self._verdicts[place]
        cause = self._causes.get(ended, "")
        return JournalEntry(self._tick, self._seconds, ENDED, ended, cause, f"{name}: {code} {text}")

    @property
    def devices(self) -> list[Positions]:
        """The positions of the units that each of them concerns."""
        return [each.devices for each in self._verdicts]



def entry_of_event(stamped: Stamped, seconds: float) -> JournalEntry:
    """The entry for an accepted event."""
    match stamped.event:
        case StartWorkload(workload):
            kind, scope, text = "start", f"w{stamped.sequence}", f"{workload.name} on {','.join(workload.devices)}"
        case StopWorkload(workload_id, reason):
            kind, scope, text = "stop", workload_id, reason
        case StopWorkloads(workload_ids, reason):
            kind, scope, text = "stop", _some(workload_ids), reason
        case DropWorkload(workload_id):
            kind, scope, text = "drop", workload_id, "its peer is gone"
        case DropWorkloads(workload_ids):
            kind, scope, text = "drop", _some(workload_ids), "their peer is gone"
        case InjectFault(fault):
            of_node = f" of {fault.node}" if fault.node else ""
            kind, scope, text = "fault", f"f{stamped.sequence}", f"{fault.kind} on {','.join(fault.devices)}{of_node}"
        case ClearFault(fault_id):
            kind, scope, text = "clear", fault_id, "cleared"
        case ClearFaults(fault_ids):
            kind, scope, text = "clear", _some(fault_ids), "cleared"
        case ChangeClock(_, _, reason):
            kind, scope, text = "clock", "clock", reason
        case Reload(compiled, _):
            kind, scope, text = "reload", "fleet", compiled.roster.summary
        case Reset(reason):
            kind, scope, text = "reset", "fleet", reason
        case ChangeNodes(joined, left):
            names = {"joined": [name for name, _ in joined], "left": left}
            texts = [f"{_some(each)} {what}" for what, each in names.items() if each]
            kind, scope, text = "nodes", "fleet", "; ".join(texts)
    return JournalEntry(stamped.tick, seconds, kind, scope, f"event {stamped.sequence}", text[:_LONGEST_TEXT])


def _some(ids: Sequence[str]) -> str:
    """Ids; of many the first, and the number of the others."""
    more = len(ids) - _MAX_IDS
    return ", ".join(ids[:_MAX_IDS]) + (f" and {more} more" if more > 0 else "")


def entry_of_churn(workload: Workload, tick: int, seconds: float) -> JournalEntry:
    """The entry for a workload that churn started."""
    spec = workload.spec
    text = f"{spec.name} on {','.join(spec.devices)}"
    return JournalEntry(tick, seconds, "start", workload.workload_id, "churn", text[:_LONGEST_TEXT])
