"""Which boards of a node reach each other over links: pairs of boards, each way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from fakedev.sim.entities.roster import Roster, RosterNode
from fakedev.sim.entities.state import Level, Mask
from fakedev.sim.workloads.schedule import Positions
from fakedev.spec.tallies import PEERS

#: Boards of a node of which DCGM tells; those after them are in no pair.
_MOST_BOARDS: Final = 32


class Peers:
    """The pairs of a fleet: P of them, node by node, board by board."""

    def __init__(self, roster: Roster) -> None:
        self._first_pair: dict[RosterNode, int] = {}
        boards, peers = [], []
        count = 0
        for node in roster.nodes:
            self._first_pair[node] = count
            for board, peer in _pairs(node):
                boards.append(node.first + board)
                peers.append(node.first + peer)
                count += 1
        self._boards: Positions = np.array(boards, dtype=np.int64)
        self._peers: Positions = np.array(peers, dtype=np.int64)

    def of_node(self, node: RosterNode) -> Iterator[tuple[int, int, int]]:
        """The places of a node's pairs, with the index of each board and its peer."""
        for place, (board, peer) in enumerate(_pairs(node), self._first_pair[node]):
            yield place, board, peer

    def level(self, device: Level, tells: Mask) -> Level:
        """What is shown of the pairs.

        :param device: what is shown of the devices.
        :param tells: the devices whose vendor tells of pairs, shape (D,).
        """
        links = device.arrays.get("links_up", np.zeros(device.count))
        is_up = (links > 0) & device.present.get("links_up", np.ones(device.count, dtype=np.bool_))
        reached = is_up[self._boards] & is_up[self._peers]
        return Level(len(reached), {PEERS: reached.astype(np.float64)}, {PEERS: tells[self._boards]})


def _pairs(node: RosterNode) -> Iterator[tuple[int, int]]:
    count = min(len(node.devices), _MOST_BOARDS)
    return ((board, peer) for board in range(count) for peer in range(count) if board != peer)
