"""What the labels of devices say beside their names: whose they are, values that are labels; and when that changed.

Labels that follow a value: the code of the last error of a board is a label of its series too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from fakedev.sim.entities.carry_over import Moves
from fakedev.sim.entities.roster import Roster, RosterNode
from fakedev.sim.entities.state import Level
from fakedev.sim.workloads.ownership import Attribution, Chosen, LabelVersions
from fakedev.sim.workloads.schedule import Positions

#: The quantities that are facts too, as whole numbers.
VALUE_FACTS: Final = ("xid",)


def note_changes(before: Level, after: Level, roster: Roster, versions: LabelVersions) -> None:
    """Tell the versions of the nodes where such a value has changed."""
    for name in VALUE_FACTS:
        if name in after.arrays and after.arrays[name] is not before.arrays[name]:
            changed = np.flatnonzero(after.arrays[name] != before.arrays[name])
            for position in np.unique(roster.node_positions(changed)).tolist():
                versions.change(roster.nodes[position])


def value_facts(level: Level, position: int) -> dict[str, str]:
    """The facts of a device that follow its values; none of those that it has not."""
    return {name: f"{level.arrays[name][position]:.0f}" for name in VALUE_FACTS if level.has(name, position)}


class DeviceLabels:
    """The facts of a fleet's devices that change as it runs.

    :param latest: where to begin to count changes.
    :ivar attribution: whose each device is.
    """

    def __init__(self, roster: Roster, seed: int, latest: int = 0, latest_shared: int = 0) -> None:
        self._roster = roster
        self._seed = seed
        self._versions, self._shared_versions = LabelVersions(latest), LabelVersions(latest_shared)
        self.attribution = Attribution(roster, self._versions, self._shared_versions)

    @property
    def latest(self) -> int:
        """How many changes there were anywhere."""
        return self._versions.latest

    def note(self, before: Level, after: Level) -> None:
        """A tick was done: the values of the devices are others."""
        note_changes(before, after, self._roster, self._versions)

    def change(self, devices: Positions) -> None:
        """More is to be shown of some devices."""
        for position in np.unique(self._roster.node_positions(devices)).tolist():
            self._versions.change(self._roster.nodes[position])

    def moved(self, roster: Roster, moves: Moves, chosen: Iterable[Chosen]) -> DeviceLabels:
        """Those of the devices in their new places.

        :param chosen: running workloads whose devices may be others now.
        """
        other = DeviceLabels(roster, self._seed, self._versions.latest + 1, self._shared_versions.latest + 1)
        other._versions.carry(self._versions, moves.unchanged)
        other._shared_versions.carry(self._shared_versions, moves.unchanged)
        self.attribution.moved(other.attribution, moves.units, chosen)
        return other

    def facts(self, node: RosterNode, level: Level) -> list[dict[str, str]]:
        """The facts of each device of a node, those that workloads bring (pod, ...) and values (xid) among them.

        :param level: what the units show.
        """
        facts = self._roster.facts(self._seed, node)
        for position, device in zip(node.devices, facts, strict=True):
            device.update(self.attribution.facts(position), **value_facts(level, position))
        return facts

    def shared_facts(self, node: RosterNode, level: Level) -> list[list[dict[str, str]]]:
        """As :meth:`facts`, for each device those of each container on it."""
        return [
            [device | holder for holder in self.attribution.all_facts(position)]
            for position, device in zip(node.devices, self.facts(node, level), strict=True)
        ]

    def part_facts(self, node: RosterNode, level: Level) -> list[tuple[int, dict[str, str]]]:
        """Each part of a node's devices, as a unit, with its facts: its device's, and its own.

        :param level: what the units show.
        """
        parts = self._parts_of(node)
        facts = self._roster.part_facts(self._seed, node, self._roster.facts(self._seed, node)) if parts else []
        for unit, part in zip(parts, facts, strict=True):
            part.update(self.attribution.facts(unit), **value_facts(level, unit))
        return list(zip(parts, facts, strict=True))

    def shared_part_facts(self, node: RosterNode, level: Level) -> list[tuple[int, list[dict[str, str]]]]:
        """As :meth:`part_facts`, for each part those of each container on it."""
        return [
            (unit, [facts | holder for holder in self.attribution.all_facts(unit)])
            for unit, facts in self.part_facts(node, level)
        ]

    def _parts_of(self, node: RosterNode) -> range:
        """The units that are parts of a node's devices."""
        parts = self._roster.parts
        if not node.pool.has_parts:
            return range(0)
        return range(parts.of(node.devices[0]).start, parts.of(node.devices[-1]).stop)

    def version(self, node: RosterNode, *, is_shared: bool = False) -> int:
        """A number that changes whenever one of :meth:`facts` of the node does, or of :meth:`shared_facts`."""
        version = self._versions.of(node)
        return version + self._shared_versions.of(node) if is_shared else version
