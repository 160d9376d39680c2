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
from fakedev.sim.links.shares import capacity_left

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
        places = np.cumsum(has_dynamics) - 1
        members = np.flatnonzero(layout.switched)
        firsts, sizes = np.unique(layout.nodes[members], return_index=True, return_counts=True)[1:]
        self._switched = [
            _Switched(places[members[firsts[sizes == size]] + np.arange(size)[:, np.newaxis]], int(has_dynamics.sum()))
            for size in np.unique(sizes).tolist()
        ]
        self._meshed = _Meshed(links, has_dynamics) if layout.is_meshed else None

    def limited(self, conditions: Conditions) -> Conditions:
        """Conditions of all devices, limited to what they can exchange with their neighbours."""
        links, given = self._links, conditions.fabric_share
        layout = links.layout
        if links.usable is None and given is None:
            return conditions
        left = np.ones(len(layout.counts)) if links.usable is None else capacity_left(layout, links.shares)
        left = left if given is None else np.fmin(left, given)
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
        for nodes in self._switched:
            sent, received = nodes.settle(sent, received, most)
        if self._meshed is not None:
            sent, received, traffic[FETCHED[0]] = self._meshed.settled(sent, received, most)
        traffic[RATES[0]], traffic[RATES[1]] = sent, received


class _Switched:
    """Nodes whose boards exchange traffic over switches: N nodes with as many boards each, K.

    :param members: the places of their boards among all B boards, one row for each board of a node: shape (K, N).
    """

    def __init__(self, members: Positions, count: int) -> None:
        self._members = members
        self._is_all = bool(np.array_equal(members.T.ravel(), np.arange(count)))
        #: What links carry, as it was given last: it is the same array for many ticks.
        self._given = self._most = np.zeros(0)

    def settle(self, sent: Floats, received: Floats, most: Floats) -> tuple[Floats, Floats]:
        """What each board sends and receives: of each node, the sums are equal, and no board sends to itself.

        Each board takes a part of what is missing, in proportion to the traffic of the node that is not its own yet.
        """
        out = self._of_members(sent)
        is_alike = sent is received or np.array_equal(sent, received)
        into = out if is_alike else self._of_members(received)
        others = out + into
        all_out = _summed(out)
        all_into = all_out if is_alike else _summed(into)
        # What a board sends and what it receives are different traffic of the node.
        total = np.maximum(np.maximum(all_out, all_into), others.max(axis=0))
        if not (total * (1.0 - _ROUNDING) > np.minimum(all_out, all_into)).any():
            return sent, received
        np.subtract(total, others, out=others)
        rooms = len(out) * total - all_out - all_into
        if most is not self._given:
            self._given, self._most = most, self._of_members(most)
        more_out, more_into = (_parts(total - each, total, rooms) for each in (all_out, all_into))
        given_out = given_into = out + others * more_out
        if not is_alike:
            given_into = into + others * more_into
        over = given_out > self._most
        if not is_alike:
            over |= given_into > self._most
        if over.any():
            full = over.any(axis=0)
            chosen = (each[:, full] for each in (out, into, others, self._most))
            fitting = _fitting(*chosen, total[full] - all_out[full], total[full] - all_into[full])
            given_into = given_into.copy()
            given_out[:, full], given_into[:, full] = fitting
            is_alike = False
        sent = self._put(given_out, sent)
        return sent, sent if is_alike else self._put(given_into, received)

    def _of_members(self, values: Floats) -> Floats:
        if self._is_all:
            return np.ascontiguousarray(values.reshape(self._members.shape[::-1]).T)
        return values[self._members]

    def _put(self, own: Floats, values: Floats) -> Floats:
        if self._is_all:
            return own.T.ravel()
        values = values.copy()
        values[self._members] = own
        return values


def _parts(lack: Floats, total: Floats, rooms: Floats) -> Floats:
    """What is missing in each node, by the room in it; 0 where only rounding is missing."""
    return np.divide(lack, rooms, out=np.zeros_like(rooms), where=(lack > _ROUNDING * total) & (rooms > 0))


def _fitting(
    out: Floats, into: Floats, others: Floats, most: Floats, lack_out: Floats, lack_into: Floats
) -> tuple[Floats, Floats]:
    """What boards send and receive where links of some of them are full: the boards with room take more.

    :param others: traffic of the node that is not each board's own yet; as the others, one column for each node.
    """
    given = []
    for own, lack in ((into, lack_into), (out, lack_out)):
        room = np.maximum(np.minimum(most - own, others), 0.0)
        rooms = _summed(room)
        more = room * np.minimum(np.divide(lack, rooms, out=np.zeros_like(rooms), where=rooms > 0), 1.0)
        given.append(own + more)
        others = others - more
    return given[1], given[0]


def _summed(rows: Floats) -> Floats:
    """The sums over the rows, always in their order: NumPy's own order depends on the shape."""
    total: Floats = rows[0] + rows[1]
    for row in rows[2:]:
        total += row
    return total


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
