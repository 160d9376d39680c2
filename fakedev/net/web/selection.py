"""Which nodes the pages of an address show, in which identity, and how long their values hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fakedev.exposition.identity import Identity
from fakedev.sim.entities.roster import RosterNode


@dataclass(frozen=True)
class Selection:
    """Which nodes pages show, and how.

    :param pool: the only pool shown; None: all pools.
    :param identity: the identity of all devices; None: the identities of their pools.
    :param hold_seconds: pages show the state at the last multiple of these seconds; None: as the identities hold it.
    """

    pool: str | None = None
    identity: Identity | None = None
    hold_seconds: float | None = None

    def has(self, node: RosterNode) -> bool:
        """Whether pages show a node."""
        return self.pool in (None, node.pool.name)


#: All nodes, in the identities of their pools.
EVERYTHING: Final = Selection()
