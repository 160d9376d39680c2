"""The links of a fleet that goes over to another configuration: those of devices that live on have their history."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fakedev.sim.entities.carry_over import Carriage
from fakedev.sim.entities.state import Level
from fakedev.sim.links.history import LinkHistory
from fakedev.sim.links.layout import LinkLayout


def moved(history: LinkHistory, devices: Level, layout: LinkLayout, moves: Carriage) -> LinkHistory:
    """The history of the links in their new places.

    The links of a device that has come, or has another number of links now, are all up and have carried alike.

    :param devices: what the devices showed last, in their old places.
    :param layout: where they stand now.
    :param moves: where the devices went.
    """
    if history.up is None and history.known is None:
        return LinkHistory(layout)
    same = moves.old_of >= 0
    same[same] = history.layout.counts[moves.old_of[same]] == layout.counts[same]
    up = None
    if history.up is not None:
        down = np.flatnonzero(~history.up)
        owners = moves.new_of[history.layout.owners[down]]
        stays = (owners >= 0) & same[owners]
        up = np.ones(layout.count, dtype=np.bool_)
        up[layout.firsts[owners[stays]] + history.layout.numbers[down[stays]]] = False
        # A link may lead to another device now, and be down since that one's end is.
        ends = layout.remotes
        falls = np.flatnonzero(up & (ends >= 0) & ~up[ends])
        up[falls] = False
        struck = np.zeros(len(moves.new_of), dtype=np.bool_)
        fallen = layout.owners[falls]
        struck[moves.old_of[fallen[same[fallen]]]] = True
        history = history.recounted(devices.arrays, struck) if struck.any() else history
    known = None if history.known is None else same & history.known[moves.old_of]
    fresh = LinkHistory(layout, known=known)
    old = history.layout.firsts[moves.old_of[layout.owners[fresh.known_links]]] + layout.numbers[fresh.known_links]
    return replace(
        fresh,
        up=up,
        gone=None if history.gone is None else same & history.gone[moves.old_of],
        counted={name: values[history.places(old)] for name, values in history.counted.items()},
        since={name: np.where(same, since[moves.old_of], 0.0) for name, since in history.since.items()},
    )
