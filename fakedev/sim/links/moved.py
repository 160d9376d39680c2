"""The links of a fleet that goes over to another configuration: those of devices that live on have their history."""

from __future__ import annotations

import numpy as np

from fakedev.sim.links.history import LinkHistory
from fakedev.sim.links.layout import LinkLayout
from fakedev.sim.moves import Carriage
from fakedev.sim.state import Level


def moved(history: LinkHistory, devices: Level, layout: LinkLayout, moves: Carriage) -> LinkHistory:
    """The history of the links in their new places.

    The links of a device that has come, or has another number of links now, are all up and have carried alike.

    :param devices: what the devices showed last, in their old places.
    :param layout: where they stand now.
    :param moves: where the devices went.
    """
    same = moves.old_of >= 0
    same[same] = history.layout.counts[moves.old_of[same]] == layout.counts[same]
    if history.up is None and not history.counted:
        return LinkHistory(layout)
    new = np.flatnonzero(same[layout.owners])
    old = history.layout.firsts[moves.old_of[layout.owners[new]]] + layout.numbers[new]
    counted, since = {}, {}
    every = np.ones(devices.count, dtype=np.bool_)
    carried, had = history.recounted(devices.arrays, every)
    for name, values in carried.items():
        counted[name] = np.zeros(layout.count)
        counted[name][new] = values[old]
        since[name] = np.where(same, had[name][moves.old_of], 0.0)
    up = None
    if history.up is not None:
        up = np.ones(layout.count, dtype=np.bool_)
        up[new] = history.up[old]
        ends = layout.remotes
        up &= (ends < 0) | up[ends]
    gone = None if history.gone is None else same & history.gone[moves.old_of]
    return LinkHistory(layout, up, gone, counted, since)
