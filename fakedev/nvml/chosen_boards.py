"""Which boards of nodes are in the file for NVML: those of NVIDIA's driver, then those of AMD's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from fakedev.fleet.entities.roster import Roster, RosterNode
from fakedev.fleet.entities.state import Positions

NVIDIA, AMD, INTEL = "NVIDIA", "AMD", "INTEL"
#: Makers of boards that a kernel tells of; Gaudi is Habana's.
_MAKERS: Final = (NVIDIA, AMD, INTEL)
#: Numbers of vendors on PCI.
VENDORS: Final = {NVIDIA: 0x10DE, AMD: 0x1002}


class Chosen(NamedTuple):
    """The boards of some nodes, in order of the file: of each node those that NVML shows, then those of AMD.

    :ivar nodes: with the indices of both.
    :ivar devices: positions of the boards in the level of devices, shape (B,).
    :ivar parts: positions of their instances in the level of parts, shape (P,).
    :ivar links: positions of their links, shape (L,).
    """

    nodes: Sequence[tuple[RosterNode, Sequence[int], Sequence[int]]]
    devices: Positions
    parts: Positions
    links: Positions


def chosen(roster: Roster, nodes: Sequence[RosterNode]) -> Chosen:
    """The boards of NVIDIA, those whose vendor is not known, and those of AMD, of some nodes."""
    matches: list[tuple[RosterNode, Sequence[int], Sequence[int]]] = []
    for node in nodes:
        makers = [maker_of(node, index) for index in range(len(node.devices))]
        shown, of_amd = ([index for index, each in enumerate(makers) if each == maker] for maker in VENDORS)
        matches.append((node, shown, of_amd))
    devices = [node.first + index for node, *indices in matches for index in chain(*indices)]
    parts = [
        unit - roster.parts.device_count
        for node, *indices in matches for index in chain(*indices)
        for unit in units_of(roster, node, index)
    ]  # fmt: skip
    links = [link for device in devices for link in roster.links.of(device)]
    return Chosen(matches, *(np.array(places, dtype=np.int64) for places in (devices, parts, links)))


def units_of(roster: Roster, node: RosterNode, index: int) -> range:
    """The instances of a board; tiles are none."""
    units = roster.parts.of(node.first + index)
    return units if node.pool.device_type.mig_slices else units[:0]


def is_shown(node: RosterNode, index: int) -> bool:
    """Whether NVIDIA's driver has a board: one of NVIDIA, or one whose vendor is not known."""
    return maker_of(node, index) == NVIDIA


def maker_of(node: RosterNode, index: int) -> str | None:
    """One of ``_MAKERS``; None: no driver that is simulated has the board."""
    device = node.pool.devices.get(index)
    for facts in (device.facts if device else {}, node.spec.facts, node.pool.facts, node.pool.device_type.facts):
        if "vendor" in facts:
            return next((maker for maker in _MAKERS if maker in facts["vendor"].upper()), None)
    return NVIDIA
