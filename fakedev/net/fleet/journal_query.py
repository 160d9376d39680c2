"""Finding in the journal what somebody asks for: by kind, and by the devices that it concerns."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import numpy as np

from fakedev.sim.entities.selectors import resolve
from fakedev.sim.fleet import Fleet
from fakedev.sim.journal import HAPPENING_KINDS, MOST_KEPT, Happening
from fakedev.spec.errors import Refused


def find_happenings(
    fleet: Fleet, kinds: Sequence[str] = (), devices: Sequence[str] = (), node: str = "", count: int = MOST_KEPT
) -> list[Happening]:
    """The last things that happened, oldest first.

    :param kinds: of these kinds; of all, when there are none.
    :param devices: that concern one of these devices, or a part of one, as a workload names them.
    :param node: that concern this node, where no devices are given; else what device words without a node speak of.
    :raises Refused: when there is no such kind, device or node.
    """
    for kind in kinds:
        if kind not in HAPPENING_KINDS:
            near = difflib.get_close_matches(kind[:100], HAPPENING_KINDS, 1)
            hint = f"; did you mean {near[0]}?" if near else f": give some of {', '.join(HAPPENING_KINDS)}"
            raise Refused("unknown-name", f"nothing of the kind {kind[:100]!r} happens{hint}", "kind")
    on = None
    if devices or node:
        parts = fleet.roster.parts
        on = np.zeros(parts.unit_count, dtype=np.bool_)
        on[parts.with_parts(resolve(devices or ["all"], fleet.roster, node))] = True
    return fleet.happenings.last(count, frozenset(kinds), on)
