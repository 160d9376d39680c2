"""Which faults can concern a part of a device alone."""

from __future__ import annotations

from collections.abc import Mapping

from fakedev.sim.entities.roster import Roster
from fakedev.sim.faults.kinds import FaultKind
from fakedev.sim.workloads.schedule import Positions
from fakedev.spec.errors import Refused


def check_parts(kind: FaultKind, values: Mapping[str, float], units: Positions, roster: Roster) -> None:
    """Whether the parts among some units can be concerned by a fault.

    :param values: of its parameters.
    :raises Refused: when one cannot be by itself.
    """
    for unit in units[units >= roster.device_count].tolist():
        are_tiles = bool(roster.parts.is_tile[unit - roster.device_count])
        if reason := kind.why_not_on_parts(values, are_tiles=are_tiles):
            part = roster.unit_name(unit)
            text = f"{reason}, and {part} is a part: name {part.rpartition('/')[0]}"
            raise Refused("bad-argument", text, "devices")
