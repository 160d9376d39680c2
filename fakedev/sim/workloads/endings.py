"""Why workloads are over at the end of a tick, and what each is told."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.state import Level
from fakedev.sim.faults.tick import FaultTick
from fakedev.sim.workloads.limits import DeviceLimits
from fakedev.sim.workloads.running import Workloads
from fakedev.sim.workloads.workload import Verdict


class Endings:
    """The ends of a fleet's workloads: those known beforehand, then by faults, losses and limits, in this order.

    :ivar causes: the faults that ended workloads in the last tick, by the workload's id.
    """

    def __init__(self, roster: Roster, workloads: Workloads, limits: DeviceLimits) -> None:
        self._roster = roster
        self._workloads = workloads
        self._limits = limits
        self.causes: dict[str, str] = {}

    def of_tick(
        self, level: Level, before: Level, faults: FaultTick | None, end_seconds: float
    ) -> dict[str, Verdict]:
        """A verdict for each workload that is over, by its id.

        :param level: what the units (devices, and parts of such) show at the end of the tick.
        :param before: what they showed a tick ago.
        :param faults: what faults do in the tick; None: there are none.
        :param end_seconds: simulated time at its end.
        """
        over = {verdict.workload_id: verdict for verdict in self._workloads.over(end_seconds)}
        over |= self._by_faults(faults, set(over))
        over |= self._without_devices(level, set(over))
        over |= self._limits_crossed(level, before, set(over))
        return over

    def _by_faults(self, faults: FaultTick | None, gone: set[str]) -> dict[str, Verdict]:
        verdicts: dict[str, Verdict] = {}
        self.causes = {}
        for devices, text, fault_id in faults.endings if faults else ():
            struck = np.zeros(self._roster.parts.unit_count, np.bool_)
            struck[devices] = True
            for workload, device in self._workloads.on_devices(self._roster.parts.spread(struck)):
                if workload.workload_id not in gone and workload.workload_id not in verdicts:
                    reason = text.replace("{}", self._roster.unit_name(device))
                    verdicts[workload.workload_id] = workload.verdict(1, reason)
                    self.causes[workload.workload_id] = fault_id
        return verdicts

    def _without_devices(self, level: Level, gone: set[str]) -> dict[str, Verdict]:
        """Verdicts on the workloads that have lost a device."""
        verdicts = {}
        if "lost" in level.arrays:
            for workload, device in self._workloads.on_devices(level.arrays["lost"] > 0):
                if workload.workload_id not in gone:
                    text = f"Device {self._roster.unit_name(device)} lost, terminated"
                    verdicts[workload.workload_id] = workload.verdict(1, text)
        return verdicts

    def _limits_crossed(self, level: Level, before: Level, gone: set[str]) -> dict[str, Verdict]:
        verdicts = {}
        for workload, metric, device in self._workloads.limits_crossed(self._limits, level, before, gone):
            names: Mapping[str, str] = {}
            if device >= 0:
                names = self._roster.nodes[self._roster.node_position(device)].pool.shown_as
            text = f"Limit {names.get(metric, metric)} reached, terminated"
            verdicts[workload.workload_id] = workload.verdict(1, text)
        return verdicts
