"""Starts and stops workloads for ports and API, and notifies the session that started a workload of its end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from twisted.logger import Logger, LogLevel

from fakedev.net.lines.fair_share import FairShare
from fakedev.net.system.timing import no_op
from fakedev.sim.door import workload_id_of
from fakedev.sim.events import DropWorkload, DropWorkloads, Reset, StartWorkload, StopWorkload, StopWorkloads
from fakedev.sim.fleet import Fleet
from fakedev.sim.workloads.workload import Verdict, is_churn
from fakedev.spec.errors import Refused
from fakedev.spec.fleet import WorkloadSpec

Listener = Callable[[Verdict], None]

#: Verdicts that are logged and passed on at once: some milliseconds, if each goes to another peer.
MAX_VERDICTS_AT_ONCE: Final = 100
#: Workloads that are settled at once: two milliseconds.
_SETTLED_AT_ONCE: Final = 500


class WorkloadHub:
    """The workloads of a fleet, with the listeners that wait for their ends.

    :param fair_share: shares the reactor between the connections and the verdicts of a tick in which many end.
    :param note_connected: called with the id of each workload that ends with its connection.
    :param master: what else decides what runs, as ``the scenario``: then the fleet cannot be reset. Empty: nothing.
    """

    log = Logger()

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
        """The ids of the workloads whose ends somebody waits for."""
        return self._listeners

    def note_pid(self, workload_id: str, pid: int | None) -> None:
        """A workload is that of a process: to kill it ends the workload."""
        if pid is not None:
            self._pids[workload_id] = pid

    def pid_of(self, workload_id: str) -> int | None:
        """The process of a workload; None if it has none, or it is not known."""
        return self._pids.get(workload_id)

    def stop(self, word: str, reason: str = "stopped") -> list[str]:
        """Stop the workload of that id, or all of that name; return their ids.

        :raises Refused: when there is none.
        """
        found = self.fleet.intake.not_ending(self.fleet.workloads.find(word))
        if not found:
            raise Refused("unknown-name", f"no workload {word!r}", "workload")
        self.fleet.apply(StopWorkload(found[0], reason) if len(found) == 1 else StopWorkloads(tuple(found), reason))
        return found

    def drop(self, workload_ids: Sequence[str]) -> None:
        """End the workloads of a peer that left, without those that have ended already."""
        for workload_id in workload_ids:
            self._listeners.pop(workload_id, None)
            self._pids.pop(workload_id, None)
        by_id = self.fleet.workloads.by_id
        found = tuple([workload_id for workload_id in workload_ids if workload_id in by_id])
        if found:
            self.fleet.apply(DropWorkload(found[0]) if len(found) == 1 else DropWorkloads(found))

    def end(self, workload_ids: Sequence[str], reason: str) -> None:
        """Stop workloads, without those that have ended already; their listeners are not told."""
        for workload_id in workload_ids:
            self._listeners.pop(workload_id, None)
            self._pids.pop(workload_id, None)
        by_id = self.fleet.workloads.by_id
        found = self.fleet.intake.not_ending([each for each in workload_ids if each in by_id])
        if found:
            self.fleet.apply(StopWorkload(found[0], reason) if len(found) == 1 else StopWorkloads(tuple(found), reason))

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
        # A tick in which thousands end has no time for some of them.
        if len(self._verdicts) > MAX_VERDICTS_AT_ONCE:
            self._fair_share.request_turn(self, is_late=True)
        elif self.take_turn():
            self._fair_share.request_turn(self)

    @property
    def is_notifying(self) -> bool:
        """Whether verdicts of earlier ticks are not passed on yet."""
        return bool(self._verdicts)

    def take_turn(self) -> bool:
        """Pass on some verdicts; return whether there are more (called by FairShare)."""
        is_unsettled = self.fleet.settle(_SETTLED_AT_ONCE)
        for _ in range(min(len(self._verdicts), MAX_VERDICTS_AT_ONCE)):
            self._pass_on(self._verdicts.popleft())
        return self.is_notifying or is_unsettled

    def _pass_on(self, verdict: Verdict) -> None:
        # Generated workloads are many, and the journal has them.
        level = LogLevel.debug if is_churn(verdict.workload_id) else LogLevel.info
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
