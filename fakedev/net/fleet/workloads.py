"""Starts and stops workloads for ports and API, and notifies the session that started a workload of its end."""

from __future__ import annotations

from collections.abc import Callable

from twisted.logger import Logger, LogLevel

from fakedev.sim.door import workload_id_of
from fakedev.sim.events import DropWorkload, StartWorkload, StopWorkload
from fakedev.sim.fleet import Fleet
from fakedev.sim.workloads.workload import Verdict, is_churn
from fakedev.spec.errors import Refused
from fakedev.spec.fleet import WorkloadSpec

Listener = Callable[[Verdict], None]


class WorkloadHub:
    """The workloads of a fleet, with the listeners that wait for their ends."""

    log = Logger()

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self._listeners: dict[str, Listener] = {}

    def start(self, spec: WorkloadSpec, listener: Listener | None = None, peer: object = "") -> str:
        """Start a workload; return its id.

        :param listener: called when the workload has ended.
        :param peer: whose limits it counts for: a connection, or the name of a host.
        :raises Refused: when it cannot run.
        """
        workload_id = workload_id_of(self.fleet.apply(StartWorkload(spec), peer).sequence)
        if listener is not None:
            self._listeners[workload_id] = listener
        self.log.debug("workload {id} ({name}) starts", id=workload_id, name=spec.name)
        return workload_id

    def stop(self, word: str, reason: str = "stopped") -> list[str]:
        """Stop the workload of that id, or all of that name; return their ids.

        :raises Refused: when there is none.
        """
        found = [each for each in self.fleet.workloads.find(word) if not self.fleet.intake.is_ending(each)]
        if not found:
            raise Refused("unknown-name", f"no workload {word!r}", "workload")
        for workload_id in found:
            self.fleet.apply(StopWorkload(workload_id, reason))
        return found

    def drop(self, workload_id: str) -> None:
        """End a workload whose peer left; do nothing when it has ended already."""
        self._listeners.pop(workload_id, None)
        if workload_id in self.fleet.workloads.by_id:
            self.fleet.apply(DropWorkload(workload_id))

    def notify_listeners(self, verdicts: list[Verdict]) -> None:
        """Log the verdicts of a tick, and pass each to its listener."""
        for verdict in verdicts:
            # Generated workloads are many, and the journal has them.
            level = LogLevel.debug if is_churn(verdict.workload_id) else LogLevel.info
            self.log.emit(
                level, "workload {id} ({name}) ended with {code}: {text}",
                id=verdict.workload_id, name=verdict.name, code=verdict.code, text=verdict.text,
            )  # fmt: skip
            listener = self._listeners.pop(verdict.workload_id, None)
            if listener is None:
                continue
            try:
                listener(verdict)
            except Exception:
                self.log.failure("the listener of workload {id} failed", id=verdict.workload_id)
