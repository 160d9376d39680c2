"""Devices whose parts may not use the links to other boards."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fakedev.sim.boards.conditions import Conditions
from fakedev.sim.parts.layout import Parts


def without_links(conditions: Conditions, parts: Parts) -> Conditions:
    """The conditions of the devices, with nothing on the links of those whose parts may not use them."""
    cut = parts.owners[~parts.has_links]
    if not len(cut):
        return conditions
    given = conditions.fabric_share
    share = np.full(parts.device_count, np.nan) if given is None else given.copy()
    share[cut] = 0.0
    return replace(conditions, fabric_share=share)
