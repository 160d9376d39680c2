"""Health checks of NVIDIA's DCGM, beyond those of a board's state: its health watches, and connected pairs of boards.

Limits of the watches: more than 8 PCIe replays in a minute; any link error in a minute, or a link that is down; any
uncontained memory error; any throttling by heat or power limit in a minute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.reindex import FleetReindex
from fakedev.sim.entities.roster import Roster, RosterNode
from fakedev.sim.entities.state import Level, Mask, Positions
from fakedev.sim.faults.tick import FaultTick
from fakedev.spec.tallies import PEERS

_MINUTE_SECONDS: Final = 60.0
#: Counters are sampled at most once per second.
_SECOND: Final = 1.0
_MAX_REPLAYS: Final = 8
#: Watched counters, the name of the finding, and the lowest increase in a minute that is a finding.
_FINDINGS: Final = (
    ("pcie_replays", "health_pcie_replay_rate", _MAX_REPLAYS + 1),
    ("link_errors", "health_link_errors", 1),
    ("throttled_thermal_seconds", "health_thermal_violation", 1e-9),
    ("throttled_power_seconds", "health_power_violation", 1e-9),
)
#: NVIDIA's code of an uncontained memory error.
_UNCONTAINED: Final = 95
#: DCGM reports pairs of the first boards of a node only.
_MAX_BOARDS: Final = 32


class Health:
    """The findings on D devices."""

    def __init__(self, count: int) -> None:
        self._uncontained = np.zeros(count, dtype=np.bool_)
        self._past: deque[tuple[float, Mapping[str, Floats]]] = deque()
        self._increase: dict[str, Floats] = {finding: np.zeros(count) for _, finding, _ in _FINDINGS}
        self._down: Mask = np.zeros(count, dtype=np.bool_)

    def note(self, level: Level, faults: FaultTick | None, fabric_share: Floats | None, now: float) -> None:
        """Check at the end of a tick.

        :param fabric_share: remaining share of the capacity of links to other boards; None for all.
        """
        if faults is not None:
            reset = faults.resets()
            if reset is not None:
                self._uncontained = self._uncontained & ~reset
            for devices, code in faults.reports:
                if code == _UNCONTAINED:
                    self._uncontained = self._uncontained.copy()
                    self._uncontained[devices] = True
        self._down = self._down & False if fabric_share is None else fabric_share < 1.0
        if "lost" in level.arrays:
            # A lost board reports nothing.
            self._down = self._down & (level.arrays["lost"] <= 0)
        if not self._past or now - self._past[-1][0] >= _SECOND:
            watched = {name: level.arrays[name] for name, _, _ in _FINDINGS if name in level.arrays}
            self._past.append((now, watched))
        while self._past[0][0] < now - _MINUTE_SECONDS:
            self._past.popleft()
        first = self._past[0][1]
        for counter, finding, _ in _FINDINGS:
            if counter in level.arrays and counter in first:
                # A reset board counts from 0.
                self._increase[finding] = np.maximum(level.arrays[counter] - first[counter], 0.0)

    def findings(self) -> dict[str, Floats]:
        """Findings by name: 1 on devices with the finding, else 0: shape (D,)."""
        found: dict[str, Sequence[bool] | Mask] = {
            finding: self._increase[finding] >= least for _, finding, least in _FINDINGS
        }
        found["health_link_down"] = self._down
        found["health_uncontained"] = self._uncontained
        return {name: np.asarray(is_there, dtype=np.float64) for name, is_there in found.items()}

    def move(self, moves: FleetReindex) -> None:
        """Move to the new positions of devices; the watch of counters starts again."""
        nothing = np.zeros(len(moves.old_of), dtype=np.bool_)
        self._uncontained = moves.carried(self._uncontained, nothing)
        self._down = moves.carried(self._down, nothing)
        self._past.clear()
        self._increase = {name: np.zeros(len(moves.old_of)) for name in self._increase}


class Peers:
    """The P pairs of boards of a fleet, in both directions, ordered by node and board."""

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
        """The positions of a node's pairs, with the index of each board and its peer."""
        for place, (board, peer) in enumerate(_pairs(node), self._first_pair[node]):
            yield place, board, peer

    def level(self, device: Level, reports: Mask) -> Level:
        """The level of the pairs.

        :param device: the level of the devices.
        :param reports: devices whose vendor reports pairs, shape (D,).
        """
        links = device.arrays.get("links_up", np.zeros(device.count))
        is_up = (links > 0) & device.mask("links_up")
        reached = is_up[self._boards] & is_up[self._peers]
        return Level(len(reached), {PEERS: reached.astype(np.float64)}, {PEERS: reports[self._boards]})


def _pairs(node: RosterNode) -> Iterator[tuple[int, int]]:
    count = min(len(node.devices), _MAX_BOARDS)
    return ((board, peer) for board in range(count) for peer in range(count) if board != peer)
