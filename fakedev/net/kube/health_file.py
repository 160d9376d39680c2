"""Keeps what a cluster knows of the health of devices beside the state of the fleet, for the next service."""

from __future__ import annotations

import numpy as np

from fakedev.kube.health import KnownHealth
from fakedev.kube.health_record import NoHealth, health_record, read_health
from fakedev.net.fleet.state_files import CannotGoOn
from fakedev.net.fleet.state_folder import CLUSTER_HEALTH, StateFolder
from fakedev.sim.entities.roster import Roster


class HealthFile:
    """The file in the folder of the state."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self._written: KnownHealth | None = None

    def read(self, roster: Roster) -> KnownHealth | None:
        """What the service before this one has left of the units of a roster; None: nothing.

        :raises CannotGoOn: when it cannot be used.
        """
        text = self._state.kept(CLUSTER_HEALTH)
        try:
            return None if text is None else read_health(text, roster)
        except NoHealth as reason:
            text = f"{self._state.path_of(CLUSTER_HEALTH)}: {reason}: move its folder away to begin anew"
            raise CannotGoOn(text) from None

    def write(self, known: KnownHealth) -> None:
        """Keep what is known after a tick or the start of a plugin. It is written only when it is something else."""
        if self._written is None or not _is_same(self._written, known):
            self._written = known
            self._state.keep(CLUSTER_HEALTH, health_record(known))


def _is_same(before: KnownHealth, now: KnownHealth) -> bool:
    """Whether the same is known, perhaps of another tick."""
    return before.roster is now.roster and before.nodes == now.nodes and all(
        np.array_equal(was, is_now) for was, is_now in zip(before[2:5], now[2:5], strict=True)
    )  # fmt: skip
