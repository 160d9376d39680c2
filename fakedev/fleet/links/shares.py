"""How the traffic of a device is spread over its links, when some of them are down."""

from __future__ import annotations

import numpy as np

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Mask
from fakedev.fleet.links.link_layout import LinkLayout


def usable_links(layout: LinkLayout, up: Mask | None) -> Mask | None:
    """Links that are up and that something may use, shape (L,); None for all.

    :param up: links that are up, shape (L,); None for all.
    """
    if layout.isolated is None:
        return up
    closed = layout.each(layout.isolated)
    closed = closed | ((layout.remotes >= 0) & closed[layout.remotes])
    return ~closed if up is None else up & ~closed


def shares_of_links(layout: LinkLayout, usable: Mask | None, counts: Floats) -> Floats:
    """Each link's share of its device's traffic, shape (L,).

    :param usable: usable links, shape (L,); None for all.
    :param counts: how many links of each device are usable, shape (D,).
    """
    if usable is None:
        return layout.each(1.0 / np.maximum(counts, 1.0))
    shares = np.where(usable, layout.each(1.0 / np.maximum(counts, 1.0)), 0.0)
    leads = layout.switches >= 0
    concerned = np.zeros(len(layout.counts), dtype=np.bool_)
    concerned[layout.owners[leads & ~usable]] = True
    links = np.flatnonzero(leads & layout.each(layout.of_same_nodes(concerned)))
    if len(links):
        # Links of each device to each switch of its node, by the number of the switch.
        width = int(layout.switch_numbers[links].max()) + 1
        cells = layout.owners[links] * width + layout.switch_numbers[links]
        size, are_usable = len(layout.counts) * width, usable[links]
        ups: Floats = np.bincount(cells[are_usable], minlength=size).reshape(-1, width).astype(np.float64)
        usage = _usage_of_switches(ups, layout, int(layout.nodes[-1]) + 1)[layout.nodes]
        of_cells = np.divide(usage, ups, out=np.zeros_like(ups), where=ups > 0).ravel()
        shares[links] = np.where(are_usable, of_cells[cells], 0.0)
    return shares


def _usage_of_switches(ups: Floats, layout: LinkLayout, nodes: int) -> Floats:
    """The share of its traffic that each node sends over each of its switches: shape (nodes, switches of a node).

    All devices of a node use its switches in the same proportion, so that each switch sends what it receives: in that
    of the device with the fewest links to each. A device without a usable link takes no part.

    :param ups: usable links of each device to each switch, shape (D, switches of a node).
    """
    taking = np.flatnonzero(ups.any(axis=1))
    fewest = np.full((nodes, ups.shape[1]), np.inf)
    np.minimum.at(fewest, layout.nodes[taking], ups[taking])
    fewest[np.isinf(fewest)] = 0.0
    every = fewest.sum(axis=1)[:, np.newaxis]
    usage: Floats = np.divide(fewest, every, out=np.zeros_like(fewest), where=every > 0)
    return usage


def capacity_left(layout: LinkLayout, shares: Floats) -> Floats:
    """The share of each device's capacity that its fullest link leaves, shape (D,).

    :param shares: each link's share of its device's traffic, shape (L,).
    """
    have = np.flatnonzero(layout.counts)
    fullest = layout.counts[have] * np.maximum.reduceat(shares, layout.firsts[have])
    left = np.ones(len(layout.counts))
    left[have] = np.divide(1.0, fullest, out=np.zeros(len(have)), where=fullest > 0)
    return left
