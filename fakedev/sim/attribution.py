"""Whose a device is: the pods, namespaces and containers that its labels show.

A device belongs to the containers of the workloads that are on it, in the order in which they came. Where only one
can be shown it is the first: so labels do not change when another comes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fakedev.sim.label_versions import LabelVersions
from fakedev.sim.roster import Roster
from fakedev.sim.schedule import Positions
from fakedev.sim.workload import Workload

#: The facts of a device that nobody has.
_FREE = {"pod": "", "namespace": "", "container": ""}


class Attribution:
    """Who has each device.

    :param versions: is told of nodes where another container is the first on a device.
    :param shared_versions: is told of nodes where the further ones on a device are others.
    """

    def __init__(self, roster: Roster, versions: LabelVersions, shared_versions: LabelVersions) -> None:
        self._roster = roster
        self._versions = versions
        self._shared_versions = shared_versions
        self._holders: dict[int, dict[str, Workload]] = {}
        self._lingering: dict[int, list[Workload]] = {}

    def add(self, workload: Workload) -> None:
        """A workload begins: it holds its devices, and those of its tiles, if it has a pod."""
        if not workload.spec.pod:
            return
        for device in self._roster.parts.held(workload.devices):
            holders = self._holders.setdefault(device, {})
            holders[workload.workload_id] = workload
            self._changed(device, is_first=len(holders) == 1)

    def remove(self, workload: Workload, stale: Collection[int] = ()) -> None:
        """A workload is over; its devices go to the next in line.

        :param stale: devices that it seems to hold until :meth:`release`.
        """
        if not workload.spec.pod:
            return
        for device in self._roster.parts.held(workload.devices):
            if device in stale:
                self._lingering.setdefault(device, []).append(workload)
            else:
                self._let_go(workload, device)

    def release(self, stale: Collection[int]) -> None:
        """Workloads that are over let go of all devices but those that still are stale."""
        for device in [each for each in self._lingering if each not in stale]:
            for workload in self._lingering.pop(device):
                self._let_go(workload, device)

    def moved(self, other: Attribution, new_of: Positions, running: Iterable[Workload]) -> Attribution:
        """Carry over to another attribution, of the same devices in new places, whose they are.

        :param other: without any holders.
        :param new_of: the new position of each device, -1 of those that are gone.
        :param running: the workloads, with the devices that they have now.
        """
        for device, holders in self._holders.items():
            place = int(new_of[device])
            if place >= 0:
                lingering = self._lingering.get(device, [])
                parts = other._roster.parts
                stay = {
                    name: each
                    for name, each in holders.items()
                    if each in lingering or place in each.devices or place in parts.held(each.devices)
                }
                if stay:
                    other._holders[place] = stay
                if lingering:
                    other._lingering[place] = lingering
        for workload in running:
            other.add(workload)
        return other

    def _let_go(self, workload: Workload, device: int) -> None:
        holders = self._holders[device]
        was_first = next(iter(holders)) == workload.workload_id
        del holders[workload.workload_id]
        if not holders:
            del self._holders[device]
        self._changed(device, was_first)

    def _changed(self, device: int, is_first: bool) -> None:
        node = self._roster.nodes[self._roster.node_position(device)]
        (self._versions if is_first else self._shared_versions).change(node)

    def is_free(self, device: int) -> bool:
        """Whether nobody has a device."""
        return device not in self._holders

    def facts(self, device: int) -> dict[str, str]:
        """``pod``, ``namespace`` and ``container`` of a device; empty texts when it is free."""
        holders = self._holders.get(device)
        return _facts(next(iter(holders.values()))) if holders else _FREE

    def all_facts(self, device: int) -> list[dict[str, str]]:
        """The same of each container on a device, each once, in the order in which they came."""
        holders = self._holders.get(device)
        if not holders:
            return [_FREE]
        return list({tuple(facts.values()): facts for facts in map(_facts, holders.values())}.values())


def _facts(workload: Workload) -> dict[str, str]:
    spec = workload.spec
    return {"pod": spec.pod, "namespace": spec.namespace, "container": spec.container}
