"""What the groups of a page were before the fleet went over to another configuration: their texts may still hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from fakedev.sim.entities.roster import Roster, RosterNode
from fakedev.sim.fleet import Fleet

Group = TypeVar("Group")


@dataclass(frozen=True)
class Former(Generic[Group]):
    """What a group was.

    :ivar grown: by how much the positions of its entities of a level have grown since; None: not all by as much.
    """

    group: Group
    grown: Callable[[str], int | None]


def former_node(fleet: Fleet, node: RosterNode) -> Former[RosterNode] | None:
    """The node before the last reload, if nothing else is said of it since."""
    moves = fleet.moves
    was = None if moves is None else moves.unchanged.get(node)
    if moves is None or was is None:
        return None
    old, former = moves.before, was

    def grown(level: str) -> int | None:
        now, then = _first(fleet.roster, node, level), _first(old, former, level)
        return None if now is None or then is None else now - then

    return Former(former, grown)


def _first(roster: Roster, node: RosterNode, level: str) -> int | None:
    """Where the entities of a level begin in a node that has some; None where they do not follow each other."""
    match level.partition("/")[0]:
        case "device" | "held" | "whole" | "tiled" | "single":
            return node.first
        case "unit" | "repeated":
            return None if roster.parts.count else node.first
        case "part" | "tile":
            return int(np.searchsorted(roster.parts.owners, node.first))
        case "link" | "port":
            return int(roster.links.firsts[node.first]) if len(node.devices) else 0
        case "switch":
            return roster.links.switches_of(node.first).start
    return None
