"""What is over: the last workloads that ended, and the last faults, for lists and for causes that outlive them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Final, NamedTuple

from fakedev.fleet.entities.state import Positions
from fakedev.fleet.faults.rules import Change
from fakedev.fleet.spec.fault_kinds import fields_of_fault
from fakedev.fleet.spec.fleet_spec import FaultSpec
from fakedev.fleet.workloads.workload import Verdict

#: Kept ends of workloads with code 0, kept failures, and kept faults.
MAX_KEPT: Final = 500
#: Devices that an end names, and device words of a fault.
_MAX_NAMED: Final = 3
_MAX_WORDS: Final = 100


class When(NamedTuple):
    """A tick.

    :ivar seconds: simulated time of its end.
    :ivar wall_seconds: when it was due, in seconds since 1970.
    """

    tick: int
    seconds: float
    wall_seconds: float

    def fields(self) -> dict[str, Any]:
        """As plain values."""
        return {"ended-tick": self.tick, "ended-seconds": self.seconds, "ended-at": wall_time(self.wall_seconds)}


class EndedWorkload(NamedTuple):
    """A workload that has ended.

    :ivar devices: names of its first devices.
    :ivar cause: ids of the faults that ended it; empty for none.
    :ivar detail: of a limit that ended it: reading, limit and device; else empty.
    """

    workload_id: str
    name: str
    pod: str
    code: int
    text: str
    cause: str
    devices: str
    when: When
    detail: str

    def fields(self) -> dict[str, Any]:
        """As plain values, for API and ports."""
        return {
            "id": self.workload_id, "state": "ended", "name": self.name, "pod": self.pod, "code": self.code,
            "text": self.text, "detail": self.detail, "cause": self.cause, "devices": self.devices,
            **self.when.fields(),
        }  # fmt: skip


class PastFault(NamedTuple):
    """A fault that is over.

    :ivar devices: names of the first devices that it affected last.
    """

    fault_id: str
    spec: FaultSpec
    devices: str
    since_seconds: float | None
    when: When

    def fields(self) -> dict[str, Any]:
        """As plain values, for API and ports."""
        fields = fields_of_fault(self.spec)
        fields["devices"] = list(self.spec.devices[:_MAX_WORDS])
        return {
            "id": self.fault_id, "state": "over", **fields, "affected": self.devices,
            "since-seconds": self.since_seconds, **self.when.fields(),
        }  # fmt: skip


class Past:
    """The last ends: failures are kept apart, so that many good ends do not push them out.

    :param names: returns the names of devices, as they are now.
    """

    def __init__(self, names: Callable[[Positions], str]) -> None:
        self._names = names
        self._good: deque[EndedWorkload] = deque(maxlen=MAX_KEPT)
        self._failed: deque[EndedWorkload] = deque(maxlen=MAX_KEPT)
        self._faults: deque[PastFault] = deque(maxlen=MAX_KEPT)
        #: Ends whose devices are not named yet, each with its tick and its cause, the oldest last.
        self._unnamed: list[tuple[When, Verdict, str]] = []

    def note_ends(self, when: When, verdicts: Sequence[Verdict], causes: Mapping[str, str]) -> None:
        """Keep the ends of a tick.

        :param causes: ids of the faults that ended workloads, by the workload's id.
        """
        new = [(when, verdict, causes.get(verdict.workload_id, "")) for verdict in reversed(verdicts)]
        # Those of earlier ticks are not named at once, because that takes 20 ms, and not at all if they are too old.
        self._unnamed = [
            *islice((end for end in (*new, *self._unnamed) if end[1].code), MAX_KEPT),
            *islice((end for end in (*new, *self._unnamed) if not end[1].code), MAX_KEPT),
        ]

    def settle(self, most: int | None = None) -> bool:
        """Name the devices of the last ends, before these have other positions.

        :param most: maximum number of ends; None: all.
        :returns: whether there are more.
        """
        for _ in range(len(self._unnamed) if most is None else min(most, len(self._unnamed))):
            when, each, cause = self._unnamed.pop()
            head = each.workload_id, each.name, each.pod, each.code, each.text
            kept = self._failed if each.code else self._good
            kept.append(EndedWorkload(*head, cause, self._named(each.devices), when, each.detail))
        return not self.is_settled

    @property
    def is_settled(self) -> bool:
        """Whether there is nothing to :meth:`settle`."""
        return not self._unnamed

    def note_faults(self, when: When, changes: Sequence[Change], going_on: Mapping[str, object]) -> None:
        """Keep the faults that are over, of those that changed in a tick.

        :param going_on: the ids of all others.
        """
        for fault, _, devices in changes[-MAX_KEPT:]:
            if fault.fault_id not in going_on:
                named = self._named(devices if len(devices) else fault.devices)
                self._faults.append(PastFault(fault.fault_id, fault.spec, named, fault.since_seconds, when))

    def ends(self) -> list[EndedWorkload]:
        """The ends, newest first."""
        self.settle()
        return sorted((*self._good, *self._failed), key=lambda each: each.when.tick, reverse=True)

    def faults(self) -> list[PastFault]:
        """The faults, newest first."""
        return list(reversed(self._faults))

    def end(self, word: str) -> EndedWorkload | None:
        """The last end of a workload of that id or name."""
        return next((end for end in self.ends() if word in (end.workload_id, end.name)), None)

    def fault(self, fault_id: str) -> PastFault | None:
        """The fault of that id."""
        return next((fault for fault in self._faults if fault.fault_id == fault_id), None)

    def _named(self, devices: Positions) -> str:
        more = len(devices) - _MAX_NAMED
        return self._names(devices[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def wall_time(seconds: float) -> str:
    """A time in seconds since 1970 as text, in UTC: ``2026-11-26T10:04:05Z``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
