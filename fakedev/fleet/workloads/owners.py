"""The labels of devices that change as a fleet runs: owners (pod, namespace, ...) and values such as the XID.

A device belongs to the containers of its workloads, in the order of their start. An identity that shows only one
container shows the first, so labels do not change when another workload starts. Workloads that have labels and no pod,
such as the jobs of a cluster without Kubernetes, add their labels to each container's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fakedev.base.steps import Steps, spans
from fakedev.fleet.entities.reindex import FleetReindex, Reindex
from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.entities.state import Level, Positions
from fakedev.fleet.spec.quantities import IMEX_DOMAIN_WORDS
from fakedev.fleet.workloads.workload import Workload, is_owner

#: The quantities that are labels too: the words for 0, 1, ...; none for whole numbers.
VALUE_FACTS: Final[Mapping[str, tuple[str, ...]]] = {"xid": (), "imex_domain_status": IMEX_DOMAIN_WORDS}
#: The owner of a free device.
_FREE: Final = {"pod": "", "namespace": "", "container": ""}


class Holds(NamedTuple):
    """P pairs of a workload that owns its devices, and one of them, grouped by workload in the order of their start.

    :ivar ids: of all running workloads, shape (W,).
    :ivar rows: the position of each pair's workload among them, shape (P,).
    :ivar devices: of the pairs, shape (P,).
    """

    ids: NDArray[np.object_]
    rows: Positions
    devices: Positions


class Chosen(NamedTuple):
    """A running workload of the configuration whose devices a reload chose again.

    :ivar had: the devices that it had before, as positions before the reload.
    """

    workload: Workload
    had: Positions


class LabelVersions:
    """A number for each node that grows with every change of the node's labels; pages cache label texts by it.

    :ivar latest: the number of changes on all nodes.
    """

    def __init__(self, latest: int = 0) -> None:
        self.latest = latest
        self._of: dict[RosterNode, int] = {}

    def carry(self, before: LabelVersions, same: Mapping[RosterNode, RosterNode]) -> None:
        """Take over the numbers of nodes that a reload did not change.

        :param same: unchanged nodes, each with its node before the reload.
        """
        self._of = {node: before._of[was] for node, was in same.items() if was in before._of}

    def change(self, node: RosterNode) -> None:
        """A label of the node has changed."""
        self.latest += 1
        self._of[node] = self.latest

    def of(self, node: RosterNode) -> int:
        """The number of the last change of the node's labels."""
        return self._of.get(node, 0)


def owned(device: dict[str, str], owner: Mapping[str, str]) -> dict[str, str]:
    """The facts of a device and of its owner; the device's fact wins where both have one.

    So no label of a workload makes two devices look the same.
    """
    return {**device, **owner, **device}


def value_facts(level: Level, position: int) -> dict[str, str]:
    """The labels of an entity that follow its values, for the quantities that it has."""
    numbers = {name: int(level.arrays[name][position]) for name in VALUE_FACTS if level.has(name, position)}
    return {name: VALUE_FACTS[name][number] if VALUE_FACTS[name] else str(number) for name, number in numbers.items()}


class Attribution:
    """The owners of each device.

    :param versions: changed for nodes where the first container of a device changes.
    :param shared_versions: changed for nodes where only further containers of a device change.
    """

    def __init__(self, roster: Roster, versions: LabelVersions, shared_versions: LabelVersions) -> None:
        self._roster = roster
        self._versions = versions
        self._shared_versions = shared_versions
        #: The owners of each unit by the workload's id, in the order of their start; None if the unit is free.
        self._holders: list[dict[str, Workload] | None] = [None] * roster.parts.unit_count
        #: The ids of ended workloads that stale devices still show.
        self._lingering: dict[int, list[str]] = {}
        #: Of units that several containers share: the number of each container's share, which it keeps.
        self._shares: dict[int, dict[tuple[str, ...], int]] = {}
        #: How many owners without a pod a unit has; units without any are not in it.
        self._without_pod: dict[int, int] = {}

    def add(self, holds: Holds, by_id: Mapping[str, Workload]) -> Steps[None]:
        """Workloads with a pod or labels start: they own their devices, and the devices of their tiles.

        :param by_id: the workloads by their ids.
        """
        for ids, held in self._held(holds):
            self._add_owners([by_id[workload_id] for workload_id in ids], held)
            yield

    def remove(self, holds: Holds, stale: Collection[int] = ()) -> Steps[None]:
        """Workloads ended: their devices belong to the next owner.

        :param stale: devices that still show the ended workload, until :meth:`release`.
        """
        # By device: a dict is slow to find its first element after many of the elements before it were deleted.
        gone: dict[int, list[str]] = {}
        for ids, held in self._held(holds):
            for workload_id, device in zip(ids, held, strict=True):
                (self._lingering if device in stale else gone).setdefault(device, []).append(workload_id)
            yield
        devices = list(gone)
        for span in spans(len(devices)):
            self._remove_owners({device: gone[device] for device in devices[span]})
            yield

    def release(self, stale: Collection[int]) -> None:
        """Remove ended workloads from all devices that are no longer stale."""
        over = [device for device in self._lingering if device not in stale]
        if over:
            self._remove_owners({device: self._lingering.pop(device) for device in over})

    def _held(self, holds: Holds) -> Iterator[tuple[list[str], list[int]]]:
        """The ids and the devices of the pairs, and of workloads and the boards of their tiles: some at a time."""
        rows, devices = self._roster.parts.held_by(holds.rows, holds.devices)
        for span in spans(len(rows)):
            yield holds.ids[rows[span]].tolist(), devices[span].tolist()

    def copy_to(self, other: Attribution, moves: Reindex, chosen: Iterable[Chosen]) -> None:
        """Copy the owners to an empty attribution of the same devices at new positions.

        :param moves: of the units.
        :param chosen: workloads whose devices may have changed; all others keep their devices.
        """
        # A new device has the position -1, where the None is.
        other._holders = list(map([*self._holders, None].__getitem__, moves.old_of.tolist()))
        lingering = ((int(moves.new_of[device]), container) for device, container in self._lingering.items())
        other._lingering = {place: container for place, container in lingering if place >= 0}
        shares = ((int(moves.new_of[device]), dict(share)) for device, share in self._shares.items())
        other._shares = {place: share for place, share in shares if place >= 0}
        counts = ((int(moves.new_of[device]), count) for device, count in self._without_pod.items())
        other._without_pod = {place: count for place, count in counts if place >= 0}
        for workload, devices in chosen:
            if is_owner(workload.spec):
                had = moves.followed(self._roster.parts.held(devices))
                now = other._roster.parts.held(workload.devices)
                workload_id, count = workload.workload_id, len(moves.old_of)
                left = np.sort(_without(had, now, count)).tolist()
                left = [device for device in left if workload_id not in other._lingering.get(device, ())]
                other._remove_owners({device: [workload_id] for device in left})
                added = _without(now, had, count).tolist()
                other._add_owners([workload] * len(added), added)

    def _add_owners(self, workloads: Sequence[Workload], devices: Sequence[int]) -> None:
        firsts = []
        for workload, device in zip(workloads, devices, strict=True):
            holders = self._holders[device]
            if holders is None and workload.spec.pod:
                self._holders[device] = {workload.workload_id: workload}
                firsts.append(True)
                continue
            if workload.spec.pod:
                self._share(device, workload)
            else:
                known = holders is not None and workload.workload_id in holders
                self._without_pod[device] = self._without_pod.get(device, 0) + (not known)
            firsts.append(holders is None or device in self._without_pod)
            if holders is None:
                self._holders[device] = {workload.workload_id: workload}
            else:
                holders[workload.workload_id] = workload
        self._changed(devices, firsts)

    def _share(self, device: int, workload: Workload) -> None:
        """Give a container, if it is not the first on a device, the lowest number that no other one has."""
        shares = self._shares.get(device)
        if shares is None:
            others = [_container(holder) for holder in (self._holders[device] or {}).values() if holder.spec.pod]
            if not others or others[0] == _container(workload):
                return
            shares = self._shares[device] = {others[0]: 0}
        if _container(workload) not in shares:
            shares[_container(workload)] = min({*range(len(shares) + 1)}.difference(shares.values()))

    def _unshare(self, device: int) -> None:
        """Forget the shares of containers that are gone."""
        containers = {_container(workload) for workload in (self._holders[device] or {}).values() if workload.spec.pod}
        self._shares[device] = {each: number for each, number in self._shares[device].items() if each in containers}
        if not containers:
            del self._shares[device]

    def _remove_owners(self, gone: Mapping[int, Sequence[str]]) -> None:
        firsts = []
        every, without_pod = self._holders, self._without_pod
        for device, group in gone.items():
            holders = every[device] or {}
            if len(group) == len(holders):
                every[device] = None
                without_pod.pop(device, None)
                self._shares.pop(device, None)
                firsts.append(True)
                continue
            firsts.append(next(iter(holders)) in group or device in without_pod)
            removed = [holders.pop(workload_id) for workload_id in group]
            if device in without_pod:
                without_pod[device] -= sum(not workload.spec.pod for workload in removed)
                if not without_pod[device]:
                    del without_pod[device]
            every[device] = dict(holders) if len(group) > 1 and holders else holders or None
            if device in self._shares:
                self._unshare(device)
        self._changed(list(gone), firsts)

    def _changed(self, devices: Sequence[int], firsts: Sequence[bool]) -> None:
        """Change the versions of the nodes of some devices.

        :param firsts: for each device, whether its first owner changes.
        """
        nodes = self._roster.node_positions(np.array(devices, dtype=np.int64))
        codes = 2 * nodes + np.array(firsts, dtype=np.int64)
        for code in sorted({*codes.tolist()}):  # numpy.unique would load numpy.ma
            place, is_first = divmod(code, 2)
            (self._versions if is_first else self._shared_versions).change(self._roster.nodes[place])

    def is_free(self, device: int) -> bool:
        """Whether a device has no owner."""
        return self._holders[device] is None

    def facts(self, device: int) -> dict[str, str]:
        """``pod``, ``namespace``, ``container`` and labels of a device's first owner; empty texts if it is free."""
        holders = self._holders[device]
        if not holders:
            return _FREE
        return self.all_facts(device)[0] if device in self._without_pod else _facts(next(iter(holders.values())))

    def all_facts(self, device: int) -> list[dict[str, str]]:
        """As :meth:`facts`, for each container on a device: each container once, in the order of start.

        Several workloads of a container are one, with the labels of the first. With workloads that have labels and no
        pod, for each container and each of their sets of labels.
        """
        return self._with_others(device, self._of_containers(device))

    def shared_facts(self, device: int, *, are_replicas: bool) -> list[dict[str, str]]:
        """As :meth:`all_facts`, with ``vgpu``, the number of the share that each container has.

        :param are_replicas: the device is offered in shares, also where it has only one container.
        """
        pods = self._of_containers(device)
        shares = self._shares.get(device, {})
        if shares or are_replicas:
            keys = [(pod["pod"], pod["namespace"], pod["container"]) for pod in pods]
            pods = [
                pod | {"vgpu": str(shares.get(key, 0))} if key[0] else pod
                for pod, key in zip(pods, keys, strict=True)
            ]
        return self._with_others(device, pods)

    def bare_facts(self, device: int) -> list[dict[str, str]]:
        """As :meth:`all_facts`, without the containers."""
        return self._with_others(device, [_FREE])

    def _of_containers(self, device: int) -> list[dict[str, str]]:
        firsts: dict[tuple[str, ...], Workload] = {}
        for workload in (self._holders[device] or {}).values():
            if workload.spec.pod:
                firsts.setdefault(_container(workload), workload)
        return list(map(_facts, firsts.values())) or [_FREE]

    def _with_others(self, device: int, pods: list[dict[str, str]]) -> list[dict[str, str]]:
        """The facts of containers, with each of the sets of labels of workloads without a pod."""
        if device not in self._without_pod:
            return pods
        others = dict.fromkeys(each.spec.labels for each in (self._holders[device] or {}).values() if not each.spec.pod)
        # Where a pod has a label of its own, some are the same.
        every = [dict(labels) | pod for pod in pods for labels in others]
        return list({tuple(sorted(labels.items())): labels for labels in every}.values())


class DeviceLabels:
    """The facts of a fleet's devices that change as the fleet runs.

    :ivar level: the present level of the units.
    """

    level: Level

    def __init__(self, roster: Roster, seed: int, latest: int = 0, latest_shared: int = 0) -> None:
        self._roster = roster
        self._seed = seed
        self._versions, self._shared_versions = LabelVersions(latest), LabelVersions(latest_shared)
        self.attribution = Attribution(roster, self._versions, self._shared_versions)

    @property
    def latest(self) -> int:
        """The number of label changes on all nodes."""
        return self._versions.latest

    @property
    def latest_shared(self) -> int:
        """As :attr:`latest`, of further containers on shared devices."""
        return self._shared_versions.latest

    def note(self, before: Level, after: Level) -> None:
        """A tick was done: change the versions of nodes on which a value of VALUE_FACTS changed."""
        for name in VALUE_FACTS:
            if name in after.arrays and after.arrays[name] is not before.arrays[name]:
                self.change(np.flatnonzero(after.arrays[name] != before.arrays[name]))

    def change(self, devices: Positions) -> None:
        """More series are shown for some devices."""
        for position in np.flatnonzero(np.bincount(self._roster.node_positions(devices))).tolist():
            self._versions.change(self._roster.nodes[position])

    def reindexed(self, roster: Roster, moves: FleetReindex, chosen: Iterable[Chosen]) -> DeviceLabels:
        """The labels of the devices at their new positions.

        :param chosen: running workloads whose devices may have changed.
        """
        other = DeviceLabels(roster, self._seed, self._versions.latest + 1, self._shared_versions.latest + 1)
        other._versions.carry(self._versions, moves.unchanged)
        other._shared_versions.carry(self._shared_versions, moves.unchanged)
        self.attribution.copy_to(other.attribution, moves.units, chosen)
        return other

    def facts(self, node: RosterNode) -> list[dict[str, str]]:
        """The facts of each device of a node, with facts of workloads (pod, ...) and values (xid)."""
        return [
            owned(device, self.attribution.facts(position)) | value_facts(self.level, position)
            for position, device in zip(node.devices, self._roster.facts(self._seed, node), strict=True)
        ]

    def shared_facts(self, node: RosterNode) -> list[list[dict[str, str]]]:
        """As :meth:`facts`: for each device the facts of each container on it."""
        are_replicas = node.pool.in_cluster.replicas > 1
        return [
            [
                owned(device, holder) | values
                for holder in self.attribution.shared_facts(position, are_replicas=are_replicas)
            ]
            for position, device in zip(node.devices, self._roster.facts(self._seed, node), strict=True)
            for values in (value_facts(self.level, position),)
        ]

    def bare_facts(self, node: RosterNode) -> list[list[dict[str, str]]]:
        """As :meth:`shared_facts`, without the containers: of workloads only the labels of those without a pod."""
        return [
            [owned(device, holder) | values for holder in self.attribution.bare_facts(position)]
            for position, device in zip(node.devices, self._roster.facts(self._seed, node), strict=True)
            for values in (value_facts(self.level, position),)
        ]

    def part_facts(self, node: RosterNode) -> list[tuple[int, dict[str, str]]]:
        """Each part of a node's devices, as a unit, with the facts of its device and its own."""
        return [
            (unit, owned(part, self.attribution.facts(unit)) | value_facts(self.level, unit))
            for unit, part in self._bare_parts(node)
        ]

    def shared_part_facts(
        self, node: RosterNode, *, are_bare: bool = False
    ) -> list[tuple[int, list[dict[str, str]]]]:
        """As :meth:`part_facts`: for each part the facts of each container on it, or as of :meth:`bare_facts`."""
        are_replicas = node.pool.in_cluster.replicas > 1
        holders = self.attribution.bare_facts if are_bare else partial(
            self.attribution.shared_facts, are_replicas=are_replicas
        )
        return [
            (unit, [owned(part, holder) | values for holder in holders(unit)])
            for unit, part in self._bare_parts(node)
            for values in (value_facts(self.level, unit),)
        ]

    def _bare_parts(self, node: RosterNode) -> list[tuple[int, dict[str, str]]]:
        """Each part of a node's devices, as a unit, with the facts that never change."""
        if not node.pool.has_parts:
            return []
        parts = self._roster.parts
        units = range(parts.of(node.devices[0]).start, parts.of(node.devices[-1]).stop)
        facts = self._roster.part_facts(self._seed, node, self._roster.facts(self._seed, node))
        return list(zip(units, facts, strict=True))

    def version(self, node: RosterNode, *, is_shared: bool = False) -> int:
        """A number that changes whenever one of the node's :meth:`facts`, or :meth:`shared_facts`, changes."""
        version = self._versions.of(node)
        return version + self._shared_versions.of(node) if is_shared else version


def _without(devices: Positions, others: Positions, count: int) -> Positions:
    """The devices that are not among the others; ``count`` devices in all."""
    is_other = np.zeros(count, dtype=np.bool_)
    is_other[others] = True
    return devices[~is_other[devices]]


def _container(workload: Workload) -> tuple[str, str, str]:
    spec = workload.spec
    return spec.pod, spec.namespace, spec.container


def _facts(workload: Workload) -> dict[str, str]:
    return {**dict(zip(_FREE, _container(workload), strict=True)), **dict(workload.spec.labels)}
