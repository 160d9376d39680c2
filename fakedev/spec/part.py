"""What a part of a device is, as a frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PartSpec:
    """A part of a device.

    :param key: its name among the parts of its device; randomness, UUIDs and reloads know it by that.
    :param compute_share: of the device's engines, and of all that they move, over 0 and at most 1.
    :param memory_bytes: memory of its own; 0: none is known.
    :param has_links: work on it can use the links to other boards.
    :param facts: texts for labels, beside those of its device.
    :param is_tile: it is a tile of a board, with clock, heat and errors of its own, and not an instance of a GPU:
        work on a board is on its tiles, and who has one has the board.
    """

    key: str
    compute_share: float
    memory_bytes: float = 0.0
    has_links: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)
    is_tile: bool = False
