"""The specification of a part of a device, as a frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PartSpec:
    """A part of a device.

    :param key: its name among the parts of its device, for randomness, UUIDs and reloads.
    :param compute_share: of the device's engines and their traffic, over 0 and at most 1.
    :param memory_bytes: its memory; 0: unknown.
    :param has_links: whether its work can use the links to other boards.
    :param facts: texts for labels, beside those of its device.
    :param is_tile: whether it is a tile of a board, with its own clock, heat and errors, instead of an instance of a
        GPU. Work on a board is on its tiles, and the owner of a tile owns the board.
    """

    key: str
    compute_share: float
    memory_bytes: float = 0.0
    has_links: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)
    is_tile: bool = False
