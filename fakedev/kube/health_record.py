"""What is known of the health of devices, as JSON: after a restart a cluster sees devices as before.

The state of the fleet does not have it all: XIDs of faults that are over, or from before a device plugin was started
again, are still the last ones of their devices.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np
import orjson

from fakedev.kube.health import KnownHealth, NodeHealth
from fakedev.sim.entities.roster import Roster

_FORM: Final = 1


class NoHealth(Exception):
    """A text that is no record of health."""


def health_record(known: KnownHealth) -> str:
    """The text for what is known, which :func:`read_health` reads. Units are named, as another roster numbers them."""
    units: dict[str, list[int]] = {}
    if known.roster is not None:
        columns = (known.codes, known.xids, known.is_past)
        for unit in np.flatnonzero(np.logical_or.reduce(columns)).tolist():
            units[known.roster.unit_name(unit)] = [int(column[unit]) for column in columns]
    nodes = {name: asdict(health) for name, health in known.nodes.items()}
    return orjson.dumps({"form": _FORM, "tick": known.tick, "units": units, "nodes": nodes}).decode()


def read_health(text: str, roster: Roster) -> KnownHealth:
    """What a text has for the units of a roster; what has left the fleet is left out.

    :raises NoHealth: for another text.
    """
    try:
        content = orjson.loads(text)
        if content["form"] != _FORM:
            raise NoHealth(f"its form is {content['form']}, and this version reads {_FORM}")
        columns = np.zeros((3, roster.parts.unit_count), np.int64)
        for name, values in content["units"].items():
            unit = _unit_of(name, roster)
            if unit is not None:
                columns[:, unit] = values
        nodes = {
            name: _node_health(fields) for name, fields in content["nodes"].items()
            if roster.simulated(name) is not None
        }  # fmt: skip
        codes, xids, is_past = columns
        return KnownHealth(int(content["tick"]), roster, codes, xids, is_past > 0, nodes)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise NoHealth("it is no record of the health of devices") from None


def _unit_of(name: str, roster: Roster) -> int | None:
    """The position of ``node/index`` or ``node/index/part``; None if it is not there."""
    node_name, *numbers = name.split("/")
    node, (index, *part) = roster.simulated(node_name), map(int, numbers)
    if node is None or not 0 <= index < len(node.devices):
        return None
    if not part:
        return node.first + index
    parts = roster.parts.of(node.first + index)
    return parts[part[0]] if part[0] < len(parts) else None


def _node_health(fields: dict[str, Any]) -> NodeHealth:
    health = NodeHealth(**fields)
    unhealthy = {str(device): str(why) for device, why in health.unhealthy.items()}
    return replace(health, unhealthy=unhealthy, kubelet_restarts=int(health.kubelet_restarts))
