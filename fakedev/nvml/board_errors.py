"""What boards of AMD and Intel report from tick to tick: their drivers tell it, each in its own words.

Reports follow from the quantities of boards: what grew in a tick is told in it, as drivers tell what they count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.levels import DEVICE
from fakedev.nvml.chosen_boards import AMD, INTEL, maker_of

#: Quantities of boards that drivers tell of when they grow.
_QUANTITIES: Final = (
    "memory_errors_correctable", "memory_errors_uncorrectable", "cache_errors_correctable",
    "cache_errors_uncorrectable", "link_errors", "hung", "lost", "resets",
)  # fmt: skip


class BoardError(NamedTuple):
    """What a board of AMD or Intel reported.

    :ivar board: its index in the node.
    :ivar maker: of the board.
    :ivar what: a quantity: a counter of errors, ``hung``, ``lost`` or ``resets``.
    :ivar new: how much it grew; ``total`` is what it is now.
    :ivar seconds: simulated seconds.
    :ivar wall_seconds: since 1970.
    """

    node: RosterNode
    board: int
    maker: str
    what: str
    new: int
    total: int
    seconds: float
    wall_seconds: float


class BoardErrors:
    """Finds what boards report; what happened before the first tick is not told."""

    def __init__(self, fleet: Fleet) -> None:
        self._before = _values(fleet)
        self._roster: object = fleet.roster

    def of_tick(self, fleet: Fleet, nodes: Sequence[str]) -> list[BoardError]:
        """What grew since the last call, in order of the boards.

        :param nodes: names of the nodes; none: all of the fleet.
        """
        before, values = self._before, _values(fleet)
        is_same = self._roster is fleet.roster
        self._before, self._roster = values, fleet.roster
        # After a reload the boards have other places, and counters are compared again from the next tick on.
        return list(_grown(fleet, before, values, nodes)) if is_same else []


def _values(fleet: Fleet) -> dict[str, Floats]:
    arrays = fleet.state.levels[DEVICE].arrays
    return {name: arrays[name] for name in _QUANTITIES if name in arrays}


def _grown(
    fleet: Fleet, before: Mapping[str, Floats], now: Mapping[str, Floats], nodes: Sequence[str]
) -> Iterator[BoardError]:
    roster, state = fleet.roster, fleet.state
    for name, values in now.items():
        past = before.get(name)
        if past is None or past is values:
            continue
        for device in np.flatnonzero(values > past).tolist():
            node = roster.nodes[roster.node_position(device)]
            index = device - node.first
            if (nodes and node.name not in nodes) or roster.node(node.name) is None:
                continue
            maker = maker_of(node, index)
            if maker not in (AMD, INTEL):
                continue
            total = int(values[device])
            new = total - int(past[device])
            yield BoardError(node, index, maker, name, new, total, state.seconds, state.wall_seconds)
