"""Labels that follow a value: the code of the last error of a board is a label of its series too."""

from __future__ import annotations

from typing import Final

import numpy as np

from fakedev.sim.entities.roster import Roster
from fakedev.sim.entities.state import Level
from fakedev.sim.workloads.label_versions import LabelVersions

#: The quantities that are facts too, as whole numbers.
VALUE_FACTS: Final = ("xid",)


def note_changes(before: Level, after: Level, roster: Roster, versions: LabelVersions) -> None:
    """Tell the versions of the nodes where such a value has changed."""
    for name in VALUE_FACTS:
        if name in after.arrays and after.arrays[name] is not before.arrays[name]:
            changed = np.flatnonzero(after.arrays[name] != before.arrays[name])
            for position in np.unique(roster.node_positions(changed)).tolist():
                versions.change(roster.nodes[position])


def value_facts(level: Level, position: int) -> dict[str, str]:
    """The facts of a device that follow its values; none of those that it has not."""
    return {name: f"{level.arrays[name][position]:.0f}" for name in VALUE_FACTS if level.has(name, position)}
