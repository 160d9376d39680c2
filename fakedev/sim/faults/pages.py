"""Faults of the pages of nodes."""

from __future__ import annotations

from dataclasses import dataclass

from fakedev.sim.entities.roster import Roster
from fakedev.sim.faults.fault import Fault
from fakedev.sim.faults.faults import Faults
from fakedev.spec.fault_kinds import Scope


@dataclass(frozen=True)
class PageFaults:
    """The faults of a page.

    :param is_closed: the connection is closed without an answer.
    :param late_seconds: delay of the answer.
    :param share: share of its bytes that is sent.
    :param status: HTTP status in place of the page; 0 for none.
    :param is_html: its Content-Type is that of HTML.
    """

    is_closed: bool = False
    late_seconds: float = 0.0
    share: float = 1.0
    status: int = 0
    is_html: bool = False


class NodePageFaults:
    """The nodes whose pages have faults, kept from tick to tick."""

    def __init__(self, faults: Faults, roster: Roster) -> None:
        self._faults = faults
        self._roster = roster
        self._nodes: list[tuple[Fault, frozenset[str]]] = []

    def update(self) -> None:
        """Find the nodes again, after faults have moved."""
        self._nodes = []
        for fault in self._faults.active(Scope.PAGE, Scope.NODE):
            positions = set(self._roster.node_positions(fault.concerned).tolist())
            self._nodes.append((fault, frozenset(self._roster.nodes[each].name for each in positions)))

    def of(self, names: frozenset[str]) -> PageFaults | None:
        """The faults of a page of some nodes: those that all of them have; None without faults."""
        if not self._nodes:
            return None
        found = [fault for fault, nodes in self._nodes if names <= nodes]
        if not found:
            return None
        kinds = {fault.kind.name for fault in found}

        def values(kind: str, name: str) -> list[float]:
            return [fault.values[name] for fault in found if fault.kind.name == kind]

        return PageFaults(
            is_closed="node-down" in kinds,
            late_seconds=max(values("slow-page", "seconds"), default=0.0),
            share=min(values("cut-page", "share"), default=1.0),
            status=int(max(values("error-page", "status"), default=0.0)),
            is_html="wrong-type" in kinds,
        )

    def hidden(self) -> frozenset[str]:
        """The nodes that service discovery leaves out now."""
        return frozenset().union(*(nodes for fault, nodes in self._nodes if fault.values.get("leave-sd")))
