"""The nodes of a fleet follow those of a cluster: one change at a time, each an event of the fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from fakedev.net.system.threads import call_in_thread
from fakedev.sim.cluster_nodes import PreparedFleet, prepare
from fakedev.sim.events import ChangeNodes
from fakedev.sim.fleet import Fleet
from fakedev.spec.errors import Refused

#: A change of a fleet with fewer devices is prepared at once: it takes some milliseconds.
_MANY_DEVICES: Final = 1000
#: Nodes that one line of the log names.
_MAX_NAMED: Final = 8


class FleetNodes:
    """Brings the nodes of the fleet's pools to those that are wanted.

    :ivar problem: why the last change was refused; empty when it was not.
    """

    log = Logger()

    def __init__(self, fleet: Fleet, reactor: Any) -> None:
        self._fleet = fleet
        self._reactor = reactor
        self._wanted: Mapping[str, str] | None = None
        self._preparing: Deferred[None] | None = None
        #: The wanted nodes and the fleet that were compared last: to compare all nodes takes some milliseconds.
        self._compared: tuple[object, object] = None, None
        #: The fleet that a change will be seen in: the next change waits for it.
        self._awaited: object = None
        self._is_stopped = False
        self.problem = ""

    def want(self, nodes: Mapping[str, str]) -> None:
        """From now on these are the cluster's nodes.

        :param nodes: the name of the pool of each; the pools exist and have the nodes of the cluster. The same object
            as last time is not compared again.
        """
        self._wanted = nodes
        self._change()

    def stop(self) -> None:
        """Change nothing more."""
        self._is_stopped = True

    def ticked(self) -> None:
        """A tick has ended: a change may have been applied in it, and others may follow."""
        if self._awaited is not None and self._fleet.compiled is not self._awaited:
            self._awaited = None
        self._change()

    def _change(self) -> None:
        """Begin the next change, if one is needed and none is under way."""
        if self._wanted is None or self._preparing is not None or self._awaited is not None or self._is_stopped:
            return
        compared = self._wanted, self._fleet.compiled
        if all(map(is_, compared, self._compared)):
            return
        self._compared = compared
        present = {
            node.name: pool.name for pool in self._fleet.spec.pools if pool.has_cluster_nodes for node in pool.nodes
        }
        left = tuple(sorted(name for name, pool in present.items() if self._wanted.get(name) != pool))
        joined = tuple(sorted(pair for pair in self._wanted.items() if present.get(pair[0]) != pair[1]))
        if not joined and not left:
            return
        base = self._fleet.compiled
        if max(base.roster.device_count, 8 * len(self._wanted)) < _MANY_DEVICES:
            self._apply(joined, left, None)
            return
        prepared = call_in_thread(self._reactor, lambda: prepare(base, joined, left))
        self._preparing = prepared.addCallbacks(
            lambda done: self._apply(joined, left, done), lambda failure: self._failed(failure.value)
        )

    def _apply(
        self, joined: tuple[tuple[str, str], ...], left: tuple[str, ...], prepared: PreparedFleet | None
    ) -> None:  # fmt: skip
        self._preparing = None
        if self._is_stopped:
            return
        try:
            base = self._fleet.compiled
            self._fleet.apply(ChangeNodes(joined, left, prepared))
        except Refused as refused:
            self._failed(refused)
            return
        self._awaited, self.problem = base, ""
        for names, what in (([name for name, _ in joined], "joined"), (left, "left")):
            if names:
                self.log.info("nodes {what} the fleet: {names}", what=what, names=_some(names))

    def _failed(self, reason: BaseException) -> None:
        self._preparing = None
        if not isinstance(reason, Refused):
            raise reason
        if reason.text != self.problem:
            self.log.error("the fleet cannot have the nodes of the cluster: {reason}", reason=reason.text)
        self.problem = reason.text
        self._wanted = None  # until the cluster's nodes change, it would be refused again


def _some(names: Sequence[str]) -> str:
    """Names; of many the first, and the number of the others."""
    more = len(names) - _MAX_NAMED
    return ", ".join(names[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
