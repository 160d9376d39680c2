"""The traffic between the boards of a node: what one end of a link sends, the other receives.

Work states what its board sends and receives, not with which board. Over switches the boards of a node exchange what
their work states; what is left over goes to, or comes from, the boards that have room. Over links from board to board
each board sends alike over its links, and fetches alike what its work receives beyond what others send.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from fakedev.fleet.boards.conditions import Conditions
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Mask, Positions
from fakedev.fleet.links.link_layout import LinkLayout
from fakedev.fleet.links.link_levels import FETCHED, RATES, LinkHistory
from fakedev.fleet.links.shares import capacity_left

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
        places, count = np.cumsum(has_dynamics) - 1, int(has_dynamics.sum())
        switched, meshed = (_nodes_of(layout, flags) for flags in (layout.switched, layout.meshed))
        self._switched = [_Switched(_Members(places[devices], count)) for devices in switched]
        self._meshed = [_Meshed(links, devices, _Members(places[devices], count)) for devices in meshed]

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
        fetched = np.zeros(len(sent))
        if self._meshed:
            traffic[FETCHED[0]] = fetched
        if not (sent.any() or received.any()):
            return
        if lost.any():
            sent, received, most = (np.where(lost > 0, 0.0, rate) for rate in (sent, received, most))
        for nodes in self._switched:
            sent, received = nodes.settle(sent, received, most)
        for of_links in self._meshed:
            sent, received, fetched = of_links.settle(sent, received, most, fetched)
        if self._meshed:
            traffic[FETCHED[0]] = fetched
        traffic[RATES[0]], traffic[RATES[1]] = sent, received


class _Members:
    """N nodes with K boards each.

    :param places: the places of their boards among all B boards, one row for each board of a node: shape (K, N).
    :param count: B.
    """

    def __init__(self, places: Positions, count: int) -> None:
        self._places = places
        self._is_all = bool(np.array_equal(places.T.ravel(), np.arange(count)))

    def of(self, values: Floats) -> Floats:
        """A new array with the values of the boards of these nodes, shape (K, N)."""
        if self._is_all:
            return values.reshape(self._places.shape[::-1]).T.copy()
        return values[self._places]

    def put(self, own: Floats, values: Floats) -> Floats:
        """A new array of all boards: the values of these nodes, and of other ones those of ``values``."""
        if self._is_all:
            return own.T.ravel()
        values = values.copy()
        values[self._places] = own
        return values


class _Switched:
    """Nodes whose boards exchange traffic over switches: N nodes with as many boards each, K.

    :param members: the boards of the nodes.
    """

    def __init__(self, members: _Members) -> None:
        self._members = members
        #: What links carry, as it was given last: it is the same array for many ticks.
        self._given = self._most = np.zeros(0)

    def settle(self, sent: Floats, received: Floats, most: Floats) -> tuple[Floats, Floats]:
        """What each board sends and receives: of each node, the sums are equal, and no board sends to itself.

        Each board takes a part of what is missing, in proportion to the traffic of the node that is not its own yet.
        """
        out = self._members.of(sent)
        is_alike = sent is received or np.array_equal(sent, received)
        into = out if is_alike else self._members.of(received)
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
            self._given, self._most = most, self._members.of(most)
        more_out, more_into = (_parts(total - rate, total, rooms) for rate in (all_out, all_into))
        given_out = given_into = out + others * more_out
        if not is_alike:
            given_into = into + others * more_into
        over = given_out > self._most
        if not is_alike:
            over |= given_into > self._most
        if over.any():
            full = over.any(axis=0)
            given_into = given_into.copy()
            given_out[:, full], given_into[:, full] = _fitting(
                out[:, full], into[:, full], others[:, full], self._most[:, full], (total - all_out)[full],
                (total - all_into)[full],
            )  # fmt: skip
            is_alike = False
        sent = self._members.put(given_out, sent)
        return sent, sent if is_alike else self._members.put(given_into, received)


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
    """Nodes whose links lead from board to board: N nodes with K boards each.

    :param devices: the devices of the nodes, one row for each board of a node: shape (K, N).
    :param members: the same as boards.
    """

    def __init__(self, links: LinkHistory, devices: Positions, members: _Members) -> None:
        layout = links.layout
        self._members = members
        self._usable = links.usable_counts[devices]
        self._per_link = np.divide(1.0, self._usable, out=np.zeros(devices.shape), where=self._usable > 0)
        rows, columns = np.full(len(layout.counts), -1, dtype=np.int64), np.zeros(len(layout.counts), dtype=np.int64)
        rows[devices], columns[devices] = np.indices(devices.shape)
        ends = np.flatnonzero((layout.remotes >= 0) & (rows[layout.owners] >= 0))
        one, other = layout.owners[ends], layout.owners[layout.remotes[ends]]
        #: The share of each board's traffic that its links carry to each other board of its node: shape (K, K, N), or
        #: (K, K, 1) where it is the same in all nodes.
        self._shares = np.zeros((len(devices), *devices.shape))
        np.add.at(self._shares, (rows[one], rows[other], columns[one]), links.shares[ends])
        if (self._shares == self._shares[:, :, :1]).all():
            self._shares = self._shares[:, :, :1].copy()

    def settle(
        self, sent: Floats, received: Floats, most: Floats, fetched: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """What each board sends and receives, and what part of that its own work fetches.

        :param fetched: the last of these, as far as it is known of boards of other nodes.
        """
        own = self._members.of(sent)
        pushed = self._carried(own)
        pulled = np.maximum(self._members.of(received) - pushed, 0.0)
        if pulled.any():
            most = self._members.of(most)
            on_link = own * self._per_link
            # Fetched traffic is spread alike, too: the fullest link limits it.
            if (pulled + self._usable * on_link.max(axis=0) > most).any():
                pulled = np.minimum(pulled, np.maximum(most - self._usable * self._fullest(on_link), 0.0))
            own += self._carried(pulled)
        put = self._members.put
        return put(own, sent), put(pushed + pulled, received), put(pulled, fetched)

    def _carried(self, amounts: Floats) -> Floats:
        """What arrives at each board of what each board sends over its links, summed in the order of the boards."""
        total: Floats = self._shares[0] * amounts[0]
        part = np.empty_like(total)
        for shares, amount in zip(self._shares[1:], amounts[1:], strict=True):
            total += np.multiply(shares, amount, out=part)
        return total

    def _fullest(self, on_link: Floats) -> Floats:
        """The most that a link brings to each board."""
        most = np.zeros(on_link.shape)
        for shares, amount in zip(self._shares, on_link, strict=True):
            np.maximum(most, np.where(shares > 0, amount, 0.0), out=most)
        return most


def _nodes_of(layout: LinkLayout, devices: Mask) -> list[Positions]:
    """The devices of nodes with as many devices each: one row for each device of a node, one column for each node.

    :param devices: those of whole nodes, shape (D,).
    """
    members = np.flatnonzero(devices)
    firsts, sizes = np.unique(layout.nodes[members], return_index=True, return_counts=True)[1:]
    return [
        members[firsts[sizes == size]] + np.arange(size)[:, np.newaxis] for size in sorted(set(sizes.tolist()))
    ]
