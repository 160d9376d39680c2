"""Whose a device is: the pods, namespaces and containers that its labels show.

A device belongs to the containers of the workloads that are on it, in the order in which they came. Where only one
can be shown it is the first: so labels do not change when another comes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.label_versions import LabelVersions
from fakedev.sim.moves import Carriage
from fakedev.sim.roster import Roster
from fakedev.sim.schedule import Positions
from fakedev.sim.workload import Workload

#: The facts of a device that nobody has.
_FREE = {"pod": "", "namespace": "", "container": ""}


class Chosen(NamedTuple):
    """A running workload whose devices are chosen anew, as the configuration is another.

    :ivar had: the devices that it had before, and where those were.
    """

    workload: Workload
    had: Positions


class Attribution:
    """Who has each device.

    :param versions: is told of nodes where another container is the first on a device.
    :param shared_versions: is told of nodes where the further ones on a device are others.
    """

    def __init__(self, roster: Roster, versions: LabelVersions, shared_versions: LabelVersions) -> None:
        self._roster = roster
        self._versions = versions
        self._shared_versions = shared_versions
        #: Of each unit, shape (units,): by the workload's id; None where it is free.
        self._holders: NDArray[np.object_] = np.full(roster.parts.unit_count, None)
        self._lingering: dict[int, list[Workload]] = {}

    def add(self, workload: Workload) -> None:
        """A workload begins: it holds its devices, and those of its tiles, if it has a pod."""
        if workload.spec.pod:
            self._take(workload, self._roster.parts.held(workload.devices))

    def remove(self, workload: Workload, stale: Collection[int] = ()) -> None:
        """A workload is over; its devices go to the next in line.

        :param stale: devices that it seems to hold until :meth:`release`.
        """
        if not workload.spec.pod:
            return
        for device in self._roster.parts.held(workload.devices).tolist():
            if device in stale:
                self._lingering.setdefault(device, []).append(workload)
            else:
                self._let_go(workload, device)

    def release(self, stale: Collection[int]) -> None:
        """Workloads that are over let go of all devices but those that still are stale."""
        for device in [each for each in self._lingering if each not in stale]:
            for workload in self._lingering.pop(device):
                self._let_go(workload, device)

    def moved(self, other: Attribution, moves: Carriage, chosen: Iterable[Chosen]) -> Attribution:
        """Carry over to another attribution, of the same devices in new places, whose they are.

        :param other: without any holders.
        :param moves: of the devices.
        :param chosen: the workloads whose devices may be others now; all others have those that they had.
        """
        other._holders = moves.carried(self._holders, other._holders)
        lingering = ((int(moves.new_of[device]), each) for device, each in self._lingering.items())
        other._lingering = {place: each for place, each in lingering if place >= 0}
        for workload, devices in chosen:
            if workload.spec.pod:
                had = moves.followed(self._roster.parts.held(devices))
                now = other._roster.parts.held(workload.devices)
                for device in np.sort(_without(had, now, len(moves.old_of))).tolist():
                    if workload not in other._lingering.get(device, ()):
                        other._let_go(workload, device)
                other._take(workload, _without(now, had, len(moves.old_of)))
        return other

    def _take(self, workload: Workload, devices: Positions) -> None:
        for device in devices.tolist():
            holders = self._holders[device]
            if holders is None:
                holders = self._holders[device] = {}
            holders[workload.workload_id] = workload
            self._changed(device, is_first=len(holders) == 1)

    def _let_go(self, workload: Workload, device: int) -> None:
        holders = self._holders[device]
        was_first = next(iter(holders)) == workload.workload_id
        del holders[workload.workload_id]
        if not holders:
            self._holders[device] = None
        self._changed(device, was_first)

    def _changed(self, device: int, is_first: bool) -> None:
        node = self._roster.nodes[self._roster.node_position(device)]
        (self._versions if is_first else self._shared_versions).change(node)

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
