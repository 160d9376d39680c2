"""What the pages of an address show: of which nodes, as whose exporter prints them, and how long their numbers hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fakedev.exposition.identity import Identity
from fakedev.sim.entities.roster import RosterNode


@dataclass(frozen=True)
class Selection:
    """Which nodes pages show, and how.

    :param pool: the only pool that is shown; None: all.
    :param identity: how all devices are shown; None: as their pools' identities say.
    :param hold_seconds: pages show the last state at a multiple of so many seconds; None: as their identities say.
    """

    pool: str | None = None
    identity: Identity | None = None
    hold_seconds: float | None = None

    def has(self, node: RosterNode) -> bool:
        """Whether a node is shown."""
        return self.pool in (None, node.pool.name)


#: All nodes, as their pools' identities say.
EVERYTHING: Final = Selection()
