"""The traffic between the boards of a node: what one end of a link sends, the other receives.

Work states what its board sends and receives, not with which board. Over switches the boards of a node exchange what
their work states; what is left over goes to, or comes from, the boards that have room. Over links from board to board
each board sends alike over its links, and fetches alike what its work receives beyond what others send.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from fakedev.sim.boards.conditions import Conditions
from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.state import Mask, Positions
from fakedev.sim.links.levels import FETCHED, RATES, LinkHistory

#: Rounding of sums, as a share of them.
_ROUNDING: Final = 1e-12


def limited(history: LinkHistory, conditions: Conditions) -> Conditions:
    """Conditions of the devices, limited to the capacity of their own links that are up."""
    if history.links_up is None:
        return conditions
    counts = history.layout.counts
    share = np.divide(history.links_up, counts, out=np.full(len(counts), np.nan), where=history.links_up < counts)
    given = share if conditions.fabric_share is None else np.fmin(share, conditions.fabric_share)
    return replace(conditions, fabric_share=given, links_up=history.links_up)


class Exchange:
    """The exchange of B boards with dynamics, as long as the same links are up; arrays of shape (B,) in their order.

    :param has_dynamics: which of the D devices these are, shape (D,).
    """

    def __init__(self, links: LinkHistory, has_dynamics: Mask) -> None:
        layout = links.layout
        self._links = links
        boards = np.flatnonzero(has_dynamics)
        self._switched = _Switched(np.flatnonzero(layout.switched[boards]), layout.nodes[boards])
        self._meshed = _Meshed(links, has_dynamics) if layout.is_meshed else None

    def limited(self, conditions: Conditions) -> Conditions:
        """Conditions of all devices, limited to what they can exchange with their neighbours."""
        left = self._links.left()
        given = conditions.fabric_share
        if left is None:
            if given is None:
                return conditions
            left = np.ones(len(given))
        if given is not None:
            left = np.fmin(left, given)
        layout = self._links.layout
        # A board exchanges no more than all others of its node together.
        others = np.bincount(layout.nodes, weights=left)[layout.nodes] - left
        left = np.where(layout.switched, np.minimum(left, others), left)
        return replace(conditions, fabric_share=left)

    def settle(self, traffic: dict[str, Floats], most: Floats, lost: Floats) -> None:
        """Change the traffic of the boards such that all that is sent is received.

        :param traffic: by quantity, as far as the work of each board itself states it, at most ``most``.
        :param most: what the links of each board carry in each direction.
        :param lost: over 0 on boards that are lost: they neither send nor receive.
        """
        sent, received = traffic[RATES[0]], traffic[RATES[1]]
        if self._meshed is not None:
            traffic[FETCHED[0]] = np.zeros(len(sent))
        if not (sent.any() or received.any()):
            return
        if lost.any():
            sent, received, most = (np.where(lost > 0, 0.0, each) for each in (sent, received, most))
        sent, received = self._switched.settled(sent, received, most)
        if self._meshed is not None:
            sent, received, traffic[FETCHED[0]] = self._meshed.settled(sent, received, most)
        traffic[RATES[0]], traffic[RATES[1]] = sent, received


class _Switched:
    """Boards that exchange traffic over switches.

    :param members: their places among all boards, ascending: shape (M,).
    :param nodes: the node of each board.
    """

    def __init__(self, members: Positions, nodes: Positions) -> None:
        self._members = None if len(members) == len(nodes) else members
        self._starts, self._groups = np.unique(nodes[members], return_index=True, return_inverse=True)[1:]

    def settled(self, sent: Floats, received: Floats, most: Floats) -> tuple[Floats, Floats]:
        """What each board sends and receives."""
        if not len(self._starts):
            return sent, received
        if self._members is None:
            return self._balanced(sent, received, most)
        own = self._balanced(*(each[self._members] for each in (sent, received, most)))
        sent, received = sent.copy(), received.copy()
        sent[self._members], received[self._members] = own
        return sent, received

    def _balanced(self, sent: Floats, received: Floats, most: Floats) -> tuple[Floats, Floats]:
        """The same of the members: of each node, the sums are equal, and no board sends to itself."""
        both = sent + received
        of_nodes = [np.add.reduceat(each, self._starts) for each in (sent, received)]
        # What a board sends and what it receives are different traffic of the node.
        total = np.maximum.reduce([*of_nodes, np.maximum.reduceat(both, self._starts)])
        short = total - np.minimum(*of_nodes) > _ROUNDING * total
        if not short.any():
            return sent, received
        where = np.flatnonzero(short[self._groups])
        groups = np.cumsum(short)[self._groups[where]] - 1
        total, most = total[short], most[where]
        others = np.maximum(total[groups] - both[where], 0.0)
        settled = []
        for own, together in ((received, of_nodes[1]), (sent, of_nodes[0])):
            room = np.minimum(most - own[where], others)
            rooms = np.bincount(groups, weights=room, minlength=len(total))
            share = np.divide(total - together[short], rooms, out=np.zeros_like(rooms), where=rooms > 0)
            more = room * np.minimum(share, 1.0)[groups]
            others = np.maximum(others - more, 0.0)
            changed = own.copy()
            changed[where] += more
            settled.append(changed)
        return settled[1], settled[0]


class _Meshed:
    """Boards whose links lead to other boards: K ends of such links, in order of the links.

    :ivar sources: the board at the other end of each, shape (K,).
    :ivar shares: the share of that board's traffic which the link carries, shape (K,).
    """

    def __init__(self, links: LinkHistory, has_dynamics: Mask) -> None:
        layout = links.layout
        places = np.cumsum(has_dynamics) - 1
        ends = np.flatnonzero((layout.remotes >= 0) & layout.meshed[layout.owners])
        others = layout.remotes[ends]
        self.sources = places[layout.owners[others]]
        self.shares = links.shares[others]
        self._owners, self._starts = np.unique(places[layout.owners[ends]], return_index=True)
        self._own = layout.meshed[has_dynamics]
        self._usable = links.usable_counts[has_dynamics][self._owners]

    def settled(self, sent: Floats, received: Floats, most: Floats) -> tuple[Floats, Floats, Floats]:
        """What each board sends, receives, and what part of that its own work fetches."""
        arriving, owners = sent[self.sources] * self.shares, self._owners
        pushed = np.zeros(len(sent))
        fetched = np.where(self._own, received, 0.0)
        if len(owners):
            pushed[owners] = np.add.reduceat(arriving, self._starts)
            fetched[owners] = np.maximum(received[owners] - pushed[owners], 0.0)
            if fetched.any():
                # Fetched traffic is spread alike, too: the fullest link limits it.
                room = most[owners] - self._usable * np.maximum.reduceat(arriving, self._starts)
                fetched[owners] = np.clip(fetched[owners], 0.0, np.maximum(room, 0.0))
                sent = sent.copy()
                sent[owners] += np.add.reduceat(fetched[self.sources] * self.shares, self._starts)
        return sent, np.where(self._own, pushed + fetched, received), fetched
