"""Whose a device is: the pod, namespace and container that its labels show.

A device belongs to the workload with a pod that has been on it longest.
"""

from __future__ import annotations

from fakedev.sim.roster import Roster, RosterNode
from fakedev.sim.workload import Workload


class Attribution:
    """Who has each device, and a version of each node's labels.

    :ivar version: grows with every change anywhere.
    """

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._holders: dict[int, dict[str, Workload]] = {}
        self._versions: dict[str, int] = {}
        self.version = 0

    def add(self, workload: Workload) -> None:
        """A workload begins: it holds its devices if it has a pod."""
        if not workload.spec.pod:
            return
        for device in workload.devices.tolist():
            holders = self._holders.setdefault(device, {})
            holders[workload.workload_id] = workload
            if len(holders) == 1:
                self._changed(device)

    def remove(self, workload: Workload) -> None:
        """A workload is over; its devices go to the next in line."""
        if not workload.spec.pod:
            return
        for device in workload.devices.tolist():
            holders = self._holders[device]
            was_shown = next(iter(holders)) == workload.workload_id
            del holders[workload.workload_id]
            if not holders:
                del self._holders[device]
            if was_shown:
                self._changed(device)

    def _changed(self, device: int) -> None:
        node = self._roster.nodes[self._roster.node_position(device)].name
        self.version += 1
        self._versions[node] = self.version

    def facts(self, device: int) -> dict[str, str]:
        """``pod``, ``namespace`` and ``container`` of a device; empty texts when it is free."""
        holders = self._holders.get(device)
        if not holders:
            return {"pod": "", "namespace": "", "container": ""}
        spec = next(iter(holders.values())).spec
        return {"pod": spec.pod, "namespace": spec.namespace, "container": spec.container}

    def node_version(self, node: RosterNode) -> int:
        """A number that changes whenever a label of the node does."""
        return self._versions.get(node.name, 0)
