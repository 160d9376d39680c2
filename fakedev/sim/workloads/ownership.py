"""Whose a device is: the pods, namespaces and containers that its labels show.

A device belongs to the containers of the workloads that are on it, in the order in which they came. Where only one
can be shown it is the first: so labels do not change when another comes.

When the labels of each node last changed: pages keep label texts by this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fakedev.sim.entities.carry_over import Reindex
from fakedev.sim.entities.roster import Roster, RosterNode
from fakedev.sim.workloads.schedule import Positions
from fakedev.sim.workloads.workload import Workload


class LabelVersions:
    """Numbers that grow with every change of a node's labels.

    :param latest: where to begin.
    :ivar latest: how many changes there were anywhere.
    """

    def __init__(self, latest: int = 0) -> None:
        self.latest = latest
        self._of: dict[RosterNode, int] = {}

    def carry(self, before: LabelVersions, same: Mapping[RosterNode, RosterNode]) -> None:
        """Nodes that are the same in all that is not counted here as they were before have the numbers from there.

        :param same: what such a node was before.
        """
        self._of = {node: before._of[was] for node, was in same.items() if was in before._of}

    def change(self, node: RosterNode) -> None:
        """A label of the node has changed."""
        self.latest += 1
        self._of[node] = self.latest

    def of(self, node: RosterNode) -> int:
        """A number that is another whenever a label of the node has changed."""
        return self._of.get(node, 0)

#: The facts of a device that nobody has.
_FREE = {"pod": "", "namespace": "", "container": ""}


class Chosen(NamedTuple):
    """A running workload whose devices are chosen anew, as the configuration is another.

    :ivar had: the devices that it had before, and where those were.
    """

    workload: Workload
    had: Positions


#: A workload, and a device that it holds.
Hold = tuple[Workload, int]


class Attribution:
    """Who has each device.

    :param versions: is told of nodes where another container is the first on a device.
    :param shared_versions: is told of nodes where the further ones on a device are others.
    """

    def __init__(self, roster: Roster, versions: LabelVersions, shared_versions: LabelVersions) -> None:
        self._roster = roster
        self._versions = versions
        self._shared_versions = shared_versions
        #: Of each unit, by the workload's id; None where it is free.
        self._holders: list[dict[str, Workload] | None] = [None] * roster.parts.unit_count
        self._lingering: dict[int, list[Workload]] = {}

    def add(self, workloads: Iterable[Workload]) -> None:
        """Workloads begin: those that have a pod hold their devices, and those of their tiles."""
        self._take(self._holds(workloads))

    def remove(self, workloads: Iterable[Workload], stale: Collection[int] = ()) -> None:
        """Workloads are over; their devices go to the next in line.

        :param stale: devices that they seem to hold until :meth:`release`.
        """
        holds = self._holds(workloads)
        if stale:
            for workload, device in holds:
                if device in stale:
                    self._lingering.setdefault(device, []).append(workload)
            holds = [each for each in holds if each[1] not in stale]
        self._let_go(holds)

    def release(self, stale: Collection[int]) -> None:
        """Workloads that are over let go of all devices but those that still are stale."""
        for device in [each for each in self._lingering if each not in stale]:
            self._let_go([(workload, device) for workload in self._lingering.pop(device)])

    def _holds(self, workloads: Iterable[Workload]) -> list[Hold]:
        held = self._roster.parts.held
        return [(each, device) for each in workloads if each.spec.pod for device in held(each.devices).tolist()]

    def moved(self, other: Attribution, moves: Reindex, chosen: Iterable[Chosen]) -> Attribution:
        """Carry over to another attribution, of the same devices in new places, whose they are.

        :param other: without any holders.
        :param moves: of the devices.
        :param chosen: the workloads whose devices may be others now; all others have those that they had.
        """
        other._holders = [self._holders[device] if device >= 0 else None for device in moves.old_of.tolist()]
        lingering = ((int(moves.new_of[device]), each) for device, each in self._lingering.items())
        other._lingering = {place: each for place, each in lingering if place >= 0}
        for workload, devices in chosen:
            if workload.spec.pod:
                had = moves.followed(self._roster.parts.held(devices))
                now = other._roster.parts.held(workload.devices)
                left = [(workload, device) for device in np.sort(_without(had, now, len(moves.old_of))).tolist()]
                other._let_go([each for each in left if workload not in other._lingering.get(each[1], ())])
                other._take([(workload, device) for device in _without(now, had, len(moves.old_of)).tolist()])
        return other

    def _take(self, holds: Sequence[Hold]) -> None:
        firsts = []
        for workload, device in holds:
            holders = self._holders[device]
            firsts.append(holders is None)
            if holders is None:
                self._holders[device] = {workload.workload_id: workload}
            else:
                holders[workload.workload_id] = workload
        self._changed(holds, firsts)

    def _let_go(self, holds: Sequence[Hold]) -> None:
        firsts = []
        for workload, device in holds:
            holders = self._holders[device] or {}
            firsts.append(next(iter(holders)) == workload.workload_id)
            del holders[workload.workload_id]
            if not holders:
                self._holders[device] = None
        self._changed(holds, firsts)

    def _changed(self, holds: Sequence[Hold], firsts: Sequence[bool]) -> None:
        """Somebody has come to devices, or has left them.

        :param firsts: for each, whether that is or was the first there.
        """
        devices = np.array([device for _, device in holds], dtype=np.int64)
        nodes = self._roster.node_positions(devices).tolist()
        for place, is_first in dict.fromkeys(zip(nodes, firsts, strict=True)):
            (self._versions if is_first else self._shared_versions).change(self._roster.nodes[place])

    def is_free(self, device: int) -> bool:
        """Whether nobody has a device."""
        return self._holders[device] is None

    def facts(self, device: int) -> dict[str, str]:
        """``pod``, ``namespace`` and ``container`` of a device; empty texts when it is free."""
        holders = self._holders[device]
        return _facts(next(iter(holders.values()))) if holders else _FREE

    def all_facts(self, device: int) -> list[dict[str, str]]:
        """The same of each container on a device, each once, in the order in which they came."""
        holders = self._holders[device]
        if not holders:
            return [_FREE]
        return list({tuple(facts.values()): facts for facts in map(_facts, holders.values())}.values())


def _without(devices: Positions, others: Positions, count: int) -> Positions:
    """Those of some devices that are not among others; of as many devices as there are."""
    is_other = np.zeros(count, dtype=np.bool_)
    is_other[others] = True
    return devices[~is_other[devices]]


def _facts(workload: Workload) -> dict[str, str]:
    spec = workload.spec
    return {"pod": spec.pod, "namespace": spec.namespace, "container": spec.container}
