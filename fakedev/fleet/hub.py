"""Starts and stops workloads, injects and clears faults, for ports and API; notifies sessions of ended workloads.

It also describes faults and explanations. The session that started a workload is notified of the workload's end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from twisted.logger import Logger, LogLevel
from zope.interface import implementer

from fakedev.base.errors import Refused
from fakedev.fleet.door import fault_id_of, workload_id_of
from fakedev.fleet.events import (
    ClearFaults,
    DropWorkloads,
    InjectFault,
    Reset,
    StartWorkload,
    StopWorkloads,
)
from fakedev.fleet.faults.rules import Fault
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.fault_kinds import fault_from_fields, fields_of_fault
from fakedev.fleet.spec.workload_spec import WorkloadSpec
from fakedev.fleet.workloads.workload import Verdict, is_generated
from fakedev.runtime.clock import no_op
from fakedev.runtime.turns import FairShare, ITurnTaker

if TYPE_CHECKING:
    from fakedev.fleet.explanation import Explanation

Listener = Callable[[Verdict], None]

#: Verdicts that are logged and passed on at once: some milliseconds, if each goes to another peer.
MAX_VERDICTS_AT_ONCE: Final = 50
#: Workloads that are settled at once: a millisecond or two.
_SETTLED_AT_ONCE: Final = 100


@implementer(ITurnTaker)
class WorkloadHub:
    """The workloads of a fleet, with the listeners that wait for their ends.

    :param fair_share: shares the reactor between the connections and the verdicts of a tick in which many end.
    :param note_connected: called with the id of each workload that ends with its connection.
    :param master: what else decides what runs, as ``the scenario``: then the fleet cannot be reset. Empty: nothing.
    """

    log = Logger()
    origin = ""
    waits_for_ticks = True

    def __init__(
        self, fleet: Fleet, fair_share: FairShare, master: str = "", note_connected: Callable[[str], None] = no_op
    ) -> None:
        self.fleet = fleet
        self.master = master
        self._note_connected = note_connected
        self._fair_share = fair_share
        self._listeners: dict[str, Listener] = {}
        self._verdicts: deque[Verdict] = deque()
        #: The processes of the clients of workloads, by the workload's id.
        self._pids: dict[str, int] = {}

    def start(self, spec: WorkloadSpec, listener: Listener | None = None, peer: object = "") -> str:
        """Start a workload; return its id.

        :param listener: called when the workload has ended.
        :param peer: whose limits it counts for: a connection, or the name of a host.
        :raises Refused: when it cannot run.
        """
        workload_id = workload_id_of(self.fleet.apply(StartWorkload(spec), peer).sequence)
        if listener is not None:
            self._listeners[workload_id] = listener
            self._note_connected(workload_id)
        self.log.debug("workload {id} ({name}) starts", id=workload_id, name=spec.name)
        return workload_id

    def connected(self) -> Iterable[str]:
        """The ids of the workloads with a listener."""
        return self._listeners

    def note_pid(self, workload_id: str, pid: int | None) -> None:
        """Note the process of a workload: killing the process ends the workload."""
        if pid is not None:
            self._pids[workload_id] = pid

    def pid_of(self, workload_id: str) -> int | None:
        """The process of a workload; None if it has none, or it is not known."""
        return self._pids.get(workload_id)

    def stop(self, word: str, reason: str = "stopped") -> Sequence[str]:
        """Stop the workload of that id, or all of that name; return their ids.

        :raises Refused: when there is none.
        """
        found = self.fleet.intake.not_ending(self.fleet.workloads.find(word))
        if not found:
            raise self.fleet.workloads.unknown(word)
        self.fleet.apply(StopWorkloads(tuple(found), reason))
        return found

    def drop(self, workload_ids: Sequence[str]) -> None:
        """End the workloads of a peer that left, without those that have ended already; after a tick that is paused."""
        self._fair_share.call_when_complete(partial(self._drop, workload_ids))

    def _drop(self, workload_ids: Sequence[str]) -> None:
        self._forget(workload_ids)
        by_id = self.fleet.workloads.by_id
        found = tuple([workload_id for workload_id in workload_ids if workload_id in by_id])
        if found:
            self.fleet.apply(DropWorkloads(found))

    def end(self, workload_ids: Sequence[str], reason: str) -> None:
        """Stop workloads, without those that have ended already; their listeners are not notified."""
        self._forget(workload_ids)
        by_id = self.fleet.workloads.by_id
        found = self.fleet.intake.not_ending([workload_id for workload_id in workload_ids if workload_id in by_id])
        if found:
            self.fleet.apply(StopWorkloads(tuple(found), reason))

    def _forget(self, workload_ids: Sequence[str]) -> None:
        """Nobody waits for the ends of some workloads any more."""
        for known in (self._listeners, self._pids):
            if known:
                for workload_id in workload_ids:
                    known.pop(workload_id, None)

    def reset(self) -> int:
        """Let the fleet begin again with its configuration; the tick from which on it does.

        :raises Refused: when something else decides what runs.
        """
        if self.master:
            raise Refused("limit", f"{self.master} decides what runs: start fakedev again instead of a reset")
        return self.fleet.apply(Reset()).tick + 1

    def notify_listeners(self, verdicts: list[Verdict]) -> None:
        """Log the verdicts of a tick and pass each to its listener, in order; many take several turns."""
        self._verdicts.extend(verdicts)
        # A tick in which thousands end has no time for some of them, and none has time to settle those that it ended.
        if len(self._verdicts) <= MAX_VERDICTS_AT_ONCE:
            self._pass_some_on()
        if self.is_notifying or not self.fleet.is_settled:
            self._fair_share.request_turn(self, is_long=True, is_late=True)

    @property
    def is_notifying(self) -> bool:
        """Whether verdicts of earlier ticks are not passed on yet."""
        return bool(self._verdicts)

    def take_turn(self) -> bool:
        """Pass on some verdicts; return whether there are more (called by FairShare)."""
        is_unsettled = self.fleet.settle(_SETTLED_AT_ONCE)
        self._pass_some_on()
        return self.is_notifying or is_unsettled

    def _pass_some_on(self) -> None:
        for _ in range(min(len(self._verdicts), MAX_VERDICTS_AT_ONCE)):
            self._pass_on(self._verdicts.popleft())

    def _pass_on(self, verdict: Verdict) -> None:
        # Generated workloads and those of a cluster's pods are many, and the journal has them.
        is_routine = is_generated(verdict.workload_id) or (self.master and not verdict.code)
        level = LogLevel.debug if is_routine else LogLevel.info
        self.log.emit(
            level, "workload {id} ({name}) ended with {code}: {text}",
            id=verdict.workload_id, name=verdict.name, code=verdict.code, text=verdict.text,
        )  # fmt: skip
        self._pids.pop(verdict.workload_id, None)
        listener = self._listeners.pop(verdict.workload_id, None)
        if listener is None:
            return
        try:
            listener(verdict)
        except Exception:
            self.log.failure("the listener of workload {id} failed", id=verdict.workload_id)


#: Device words in the description of a fault; ``more-devices`` counts the rest.
_MAX_WORDS: Final = 100
#: The word that clears every fault.
ALL: Final = "all"


class FaultHub:
    """Injects, clears and finds the faults of a fleet."""

    log = Logger()

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet

    def inject(self, fields: Mapping[str, object], node: str = "", peer: object = "") -> str:
        """Inject the fault that the fields describe; return its id.

        :param peer: whose limits it counts for: the name of a host.
        :param node: the node of device words that name none, unless the fields name a node of the fleet.
        :raises Refused: when a field is wrong.
        """
        given = {name: value for name, value in fields.items() if value is not None}
        if node and "devices" in given and self.fleet.roster.node(str(given.get("node"))) is None:
            given["node"] = node
        spec = fault_from_fields(given)
        fault_id = fault_id_of(self.fleet.apply(InjectFault(spec), peer).sequence)
        self.log.info("fault {id} injected: {kind}", id=fault_id, kind=spec.kind)
        return fault_id

    def clear(self, word: str) -> list[str]:
        """Clear the fault of that id, or all; return their ids.

        :raises Refused: when there is none of that id.
        """
        found = [word]
        if word == ALL:
            found = [fault.fault_id for fault in self.fleet.faults.standing()]
        if found:
            self.fleet.apply(ClearFaults(tuple(found)))
        if len(found) == 1:
            self.log.info("fault {id} cleared", id=found[0])
        elif found:
            self.log.info("{count} faults cleared", count=len(found))
        return found


def describe_fault(fleet: Fleet, fault: Fault) -> dict[str, Any]:
    """A fault: the fields that it was injected with, and its state."""
    since = fault.since_seconds
    waits = fault.period < 0
    ends = fault.spec.duration_seconds
    left = None
    if ends and since is not None:
        left = round(max(since + ends - fleet.state.seconds, 0.0), 6)
    fields = fields_of_fault(fault.spec)
    fields["devices"] = list(fault.spec.devices[:_MAX_WORDS])
    more = len(fault.spec.devices) - _MAX_WORDS
    return {
        "id": fault.fault_id,
        "state": "waiting" if waits else "active",
        **fields,
        **({"more-devices": more} if more > 0 else {}),
        "device-count": len(fault.devices),
        "active-devices": int(fault.on.sum()),
        "since-seconds": since,
        "remaining-seconds": left,
    }


def describe_explanations(fleet: Fleet, position: int, metric: str = "") -> dict[str, Any]:
    """Why the metrics of a device have their values.

    :param metric: a metric as in a workload's limit; empty for the most important ones.
    :raises Refused: when no device of the fleet has the metric.
    """
    from fakedev.fleet.explanation import explain  # noqa: PLC0415 - fakedev-exporter must start fast, and is not asked

    quantity = fleet.quantity_of(metric) if metric else ""
    return _described(fleet, "device", fleet.roster.unit_name(position), explain(fleet, position, quantity))


def describe_link_explanations(fleet: Fleet, position: int, number: int, metric: str = "") -> dict[str, Any]:
    """Why the metrics of a link of a device have their values.

    :param number: which of the links of the device.
    :param metric: a metric of links; empty for all of them that are explained.
    :raises Refused: when there is no such link, or no such metric of links.
    """
    from fakedev.fleet.explanation import explain_link  # noqa: PLC0415

    name = f"{fleet.roster.unit_name(position)}/link/{number}"
    return _described(fleet, "link", name, explain_link(fleet, position, number, metric))


def _described(fleet: Fleet, kind: str, name: str, explanations: Sequence[Explanation]) -> dict[str, Any]:
    described = [
        {"metric": each.metric, "value": each.value, "text": each.text, "faults": list(each.faults)}
        for each in explanations
    ]
    return {kind: name, "tick": fleet.state.tick, "explanations": described}
