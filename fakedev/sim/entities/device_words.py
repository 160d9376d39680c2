"""Any number of devices and parts in few words, none left out: ``dgx-[0-1249]/[0-7]``, ``gpu-7/3``, ``mig-0/0/[1-2]``.

They are words as requests have them (selectors.py): who puts them to the fleet again gets the same devices.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Final

import numpy as np

from fakedev.sim.entities.roster import Roster
from fakedev.sim.workloads.schedule import Positions

_DIGITS: Final = "0123456789"
#: Longer numbers are not counted through.
_MOST_DIGITS: Final = 9
#: Parts that a device can have, and more: what a device of a node is multiplied by, so that its parts fit in between.
_ROOM: Final = 1 << 16


def words_of(roster: Roster, units: Positions) -> list[str]:
    """Words for some units (devices and parts), ascending; a device stands for all of its parts too."""
    parts = roster.parts
    if parts.count:
        units = units[(units < parts.device_count) | ~np.isin(parts.owners_of(units), units)]
    if len(units) <= 1:
        return [roster.unit_name(unit) for unit in units.tolist()]
    nodes = roster.node_positions(units)
    if parts.count:
        order = np.argsort(nodes, kind="stable")
        units, nodes = units[order], nodes[order]
    begins = np.flatnonzero(np.diff(nodes, prepend=-1))
    ends = [*begins[1:].tolist(), len(nodes)]
    here = nodes[begins].tolist()
    firsts = np.repeat([roster.nodes[node].first for node in here], np.diff(begins, append=len(nodes)))
    places = _places(roster, units, firsts)
    # Nodes of which the same is meant are named together.
    alike: dict[bytes, list[int]] = {}
    for node, begin, end in zip(here, begins.tolist(), ends, strict=True):
        alike.setdefault(places[begin:end].tobytes(), []).append(node)
    return [
        f"{node}/{device}"
        for key, those in alike.items()
        for node in _names([roster.nodes[each].name for each in those])
        for device in _devices(np.frombuffer(key, dtype=np.int64).tolist())
    ]


def _places(roster: Roster, units: Positions, firsts: Positions) -> Positions:
    """Where each unit is in its node: its index by _ROOM, and of a part one more than its number: shape as units.

    :param firsts: the first device of the node of each.
    """
    parts = roster.parts
    owners = parts.owners_of(units)
    places: Positions = (owners - firsts) * _ROOM
    if parts.count:
        is_part = units >= parts.device_count
        numbers = units[is_part] - parts.device_count - np.searchsorted(parts.owners, owners[is_part])
        places[is_part] += numbers + 1
    return places


def _names(names: list[str]) -> list[str]:
    """Names of nodes, those that are counted through in one word."""
    found: list[str] = []
    numbered: dict[tuple[str, int], list[int]] = {}
    for name in names:
        prefix = name.rstrip(_DIGITS)
        digits = name[len(prefix) :]
        if not 1 <= len(digits) <= _MOST_DIGITS:
            found.append(name)
            continue
        # 07 and 7 are two nodes: numbers that begin with 0 are counted apart, by how long they are.
        width = len(digits) if digits[0] == "0" and digits != "0" else 0
        numbered.setdefault((prefix, width), []).append(int(digits))
    for (prefix, width), numbers in numbered.items():
        found += [f"{prefix}{each}" for each in _runs(sorted(numbers), width)]
    return found


def _devices(places: list[int]) -> list[str]:
    """What is meant of one node, from the places of it."""
    whole = [place // _ROOM for place in places if place % _ROOM == 0]
    words = _runs(whole)
    parts = [place for place in sorted(places) if place % _ROOM]
    of_each = [
        (index, tuple(place % _ROOM - 1 for place in those)) for index, those in groupby(parts, lambda at: at // _ROOM)
    ]
    of_each.sort(key=lambda each: each[1])
    for numbers, those in groupby(of_each, lambda each: each[1]):
        words += [f"{device}/{part}" for device in _runs([index for index, _ in those]) for part in _runs(numbers)]
    return words


def _runs(numbers: Iterable[int], width: int = 0) -> list[str]:
    """Ascending numbers, those that follow each other as ``[3-7]``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return [f"{low:0{width}}" if low == high else f"[{low:0{width}}-{high:0{width}}]" for low, high in runs]
