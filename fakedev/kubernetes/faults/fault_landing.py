"""Where a fault of an object DeviceFault is seen: which of its devices show it in the state, on pages, and elsewhere.

What is asked is what readers get: the numbers of pages, the records of the file for NVML, the node as the API server
answered, Events that it took. What was seen once stays seen.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from fakedev.exporters.family import Family
from fakedev.exporters.identity import Identity
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Level, Mask, Positions, State
from fakedev.fleet.faults.page_faults import PageFaults
from fakedev.fleet.faults.rules import Fault
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.levels import UNIT
from fakedev.fleet.spec.fault_kinds import Scope
from fakedev.kubernetes.cluster import Cluster
from fakedev.kubernetes.devices.health import KUBELET_RESTART, NODE_DOWN, PLUGIN_DOWN
from fakedev.kubernetes.faults.device_fault import Landing
from fakedev.kubernetes.faults.fault_signs import NODE_EVENTS, SIGNS, Sign, makes_unhealthy
from fakedev.kubernetes.nodes.simulated_node import ClusterNode

#: The values of a quantity that the file for NVML has now: positions of boards, ascending, and values, both (B,).
NvmlValues = Callable[[str], tuple[Positions, Floats]]
#: The quantities by which faults of all series are looked for, where the fault names no metric.
_USUAL: Final = ("temperature_celsius", "power_watts", "usage_ratio")
#: Kinds of series that a look at the page can tell from a page without faults.
_OF_SERIES: Final[Mapping[str, Callable[[Floats, Mapping[str, float]], Mask]]] = {
    "nan": lambda now, values: np.isnan(now),
    "sentinel": lambda now, values: np.isclose(now, values["value"]),
}
_ABSENT: Final = "absent"




class ShownPages(Protocol):
    """The pages of a fleet.

    :ivar identities: of the pools, by their names.
    """

    identities: Mapping[str, Identity]

    def held_state(self, seconds: float) -> State:
        """What pages show that hold their values for some seconds."""
        ...


@dataclass
class Track:
    """A fault of the fleet that an object asked for.

    :ivar step: which of the object's steps it is.
    :ivar units: the positions of its devices, as the fault had them last, N.
    :ivar nodes: the node of each, and the ids of its devices there, N.
    :ivar before: the quantities of its signs before it began, each (N,).
    :ivar of, seen: for each mouth that tells of it: of which devices, and which of them were seen, each (N,).
    """

    step: int
    fault_id: str
    fault: Fault
    units: Positions
    nodes: list[tuple[str, Collection[str]]]
    before: dict[str, Floats] = field(default_factory=dict)
    of: dict[str, Mask] = field(default_factory=dict)
    seen: dict[str, Mask] = field(default_factory=dict)
    began: str = ""
    landed: str = ""
    is_over: bool = False

    @property
    def has_landed(self) -> bool:
        return bool(self.began) and not any(bool((self.of[mouth] & ~self.seen[mouth]).any()) for mouth in self.of)

    def landing(self) -> Landing:
        """What its status says of it."""
        shown = {mouth: int((seen & self.of[mouth]).sum()) for mouth, seen in self.seen.items()}
        of = {mouth: int(which.sum()) for mouth, which in self.of.items()}
        return Landing(
            self.fault.spec.kind, len(self.units), shown, of, self.began, self.landed, self.is_over
        )  # fmt: skip


class FaultLooks:
    """Looks for the signs of faults after each tick.

    :param nvml: reads the file for NVML; None: there is none.
    :param has_counts: whether nodes count their devices in capacity and allocatable.
    """

    def __init__(
        self, fleet: Fleet, cluster: Cluster, pages: ShownPages, nvml: NvmlValues | None, *, has_counts: bool
    ) -> None:
        self._fleet, self._cluster, self._pages, self._nvml = fleet, cluster, pages, nvml
        self._has_counts = has_counts
        #: The messages of Events that the API server has taken, by node and reason.
        self._told: dict[tuple[str, str], set[str]] = {}
        self._families: dict[tuple[int, str], list[tuple[Identity, Family]]] = {}

    def forget_events(self) -> None:
        """No fault is looked for any more."""
        self._told.clear()

    def forget_pages(self) -> None:
        """The fleet has other nodes or pages."""
        self._families.clear()

    def event_taken(self, event: Mapping[str, Any]) -> None:
        """The API server has taken an Event of a node."""
        self._told.setdefault((event["involvedObject"]["name"], event["reason"]), set()).add(event["message"])

    def track(self, step: int, fault: Fault) -> Track:
        track = Track(step, fault.fault_id, fault, fault.devices, self._nodes_of(fault.devices))
        self._choose_mouths(track)
        return track

    def _nodes_of(self, units: Positions) -> list[tuple[str, Collection[str]]]:
        """The node of each unit, and the ids that a device plugin gives it: those of its parts too."""
        roster = self._fleet.roster
        of_nodes: dict[str, dict[tuple[int, int | None], list[str]]] = {}
        found: list[tuple[str, Collection[str]]] = []
        for name in map(roster.unit_name, units.tolist()):
            node, index, *part = name.split("/")
            if node not in of_nodes:
                known, ids = self._cluster.nodes.get(node), of_nodes.setdefault(node, {})
                for slot in known.devices.slots if known is not None else ():
                    ids.setdefault((slot.index, None), []).append(slot.device_id)
                    ids.setdefault((slot.index, slot.part), []).append(slot.device_id)
            key = int(index), (int(part[0]) if part else None)
            found.append((node, of_nodes[node].get(key, [])))
        return found

    def _choose_mouths(self, track: Track) -> None:
        """Which mouths tell of a fault, and of which of its devices."""
        fault, count = track.fault, len(track.units)
        kind, every = fault.kind, np.ones(count, np.bool_)
        signs = SIGNS.get(kind.name, ())
        of: dict[str, Mask] = {"state": every}
        if kind.scope is Scope.PAGE or kind.name == NODE_DOWN:
            of["page"] = every
        else:
            named = self._quantities_of_series(fault) if kind.scope is Scope.SERIES else [s.quantity for s in signs]
            of["page"] = self._with_rows(track.units, named)
        if self._nvml is not None and signs:
            boards = [self._nvml(sign.quantity)[0] for sign in signs]
            of["nvml"] = np.isin(track.units, np.concatenate(boards)) if boards else ~every
        if kind.name in NODE_EVENTS or makes_unhealthy(kind.name, fault.values):
            has_ids = np.array([bool(ids) for _, ids in track.nodes], np.bool_)
            of["event"] = has_ids
            is_ready = kind.name in (NODE_DOWN, KUBELET_RESTART)
            of["node"] = np.array([self._tells_by_node(node, is_ready=is_ready) for node, _ in track.nodes], np.bool_)
            of["node"] &= has_ids
        track.of = {mouth: which for mouth, which in of.items() if which.any()}
        track.seen = {mouth: np.zeros(count, np.bool_) for mouth in track.of}

    def _tells_by_node(self, name: str, *, is_ready: bool) -> bool:
        """Whether the status of a node shows a fault: by Ready only where no kubelet writes it."""
        node = self._cluster.nodes.get(name)
        return node is not None and (not node.has_kubelet if is_ready else self._has_counts)

    @staticmethod
    def _quantities_of_series(fault: Fault) -> Sequence[str]:
        if fault.kind.name != _ABSENT and fault.kind.name not in _OF_SERIES:
            return ()
        return _USUAL if fault.metric is None else (fault.metric.quantity,)

    def look(self, track: Track, now: str) -> None:
        """Note which devices show a fault where.

        :param now: as the API writes times.
        """
        fault = track.fault
        if fault.devices is not track.units:  # the fleet has other nodes
            track.units, track.nodes = fault.devices, self._nodes_of(fault.devices)
            self._choose_mouths(track)
        signs = SIGNS.get(fault.kind.name, ())
        if fault.period < 0:
            level = self._fleet.state.levels[UNIT]
            track.before = {sign.quantity: _values_of(level, sign.quantity, track.units) for sign in signs}
            return
        if not track.began:
            self._choose_mouths(track)  # others have followed the nodes that were new by now
            track.began = now
        looks = {"state": self._by_state, "page": self._by_page, "nvml": self._by_nvml, "event": self._by_events,
                 "node": self._by_nodes}  # fmt: skip
        for mouth, of in track.of.items():
            if (of & ~track.seen[mouth]).any():
                track.seen[mouth] |= looks[mouth](track, signs)
        if track.has_landed:
            track.landed = now

    def _by_state(self, track: Track, signs: Sequence[Sign]) -> Mask:
        if not signs:
            return track.fault.on | (not track.fault.lasts)
        level = self._fleet.state.levels[UNIT]
        return self._holding(track, signs, lambda quantity: _values_of(level, quantity, track.units))

    def _by_nvml(self, track: Track, signs: Sequence[Sign]) -> Mask:
        assert self._nvml is not None
        nvml = self._nvml

        def values(quantity: str) -> Floats:
            boards, shown = nvml(quantity)
            places = np.minimum(np.searchsorted(boards, track.units), max(len(boards) - 1, 0))
            has = boards[places] == track.units if len(boards) else np.zeros(len(track.units), np.bool_)
            return np.where(has, shown[places], np.nan) if len(boards) else np.full(len(track.units), np.nan)

        return self._holding(track, signs, values)

    def _holding(self, track: Track, signs: Sequence[Sign], values: Callable[[str], Floats]) -> Mask:
        """The devices that show any of some signs."""
        found = np.zeros(len(track.units), np.bool_)
        for sign in signs:
            now = values(sign.quantity)
            has = ~np.isnan(now)
            before = np.nan_to_num(track.before.get(sign.quantity, np.zeros(len(now))))
            found |= has & sign.holds(before, np.where(has, now, 0.0), track.fault.values)
        return found

    def _by_page(self, track: Track, signs: Sequence[Sign]) -> Mask:
        fault = track.fault
        if fault.kind.scope is Scope.PAGE or fault.kind.name == NODE_DOWN:
            well = {node for node in {node for node, _ in track.nodes} if not self._has_page_trouble(node)}
            return np.array([node not in well for node, _ in track.nodes], np.bool_)
        if fault.kind.scope is not Scope.SERIES:
            return self._holding(track, signs, lambda quantity: self._on_page(track.units, quantity))
        every = np.zeros(len(track.units), np.bool_)
        test = _OF_SERIES.get(fault.kind.name)
        for quantity in self._quantities_of_series(fault):
            is_there = np.zeros(len(track.units), np.bool_)
            now = self._on_page(track.units, quantity, is_there)
            every |= (is_there & test(now, fault.values)) if test else ~is_there
        return every

    def _has_page_trouble(self, node: str) -> bool:
        faults = self._fleet.page_faults.of(frozenset([node]))
        return faults is not None and faults != PageFaults()

    def _rows_of(self, pool: str, quantity: str) -> list[tuple[Identity, Family]]:
        """The families with rows that show a quantity of devices alone, each reduced to one such row."""
        identity = self._pages.identities[pool]
        key = id(identity), quantity
        if key not in self._families:
            self._families[key] = [(identity, family) for family in Family.showing(identity.families, quantity)]
        return self._families[key]

    def _pools(self, units: Positions) -> Iterator[tuple[str, Mask]]:
        """The pools of some units, and which of them are theirs."""
        roster = self._fleet.roster
        names = np.array([roster.nodes[place].pool.name for place in roster.node_positions(units).tolist()])
        yield from ((name, names == name) for name in dict.fromkeys(names.tolist()))

    def _with_rows(self, units: Positions, quantities: Sequence[str]) -> Mask:
        """The units of pools whose pages can show any of some quantities."""
        found = np.zeros(len(units), np.bool_)
        level = self._fleet.state.levels[UNIT]
        for pool, which in self._pools(units):
            for quantity in quantities:
                if self._rows_of(pool, quantity):
                    found |= which & level.mask(quantity)[units]
        return found

    def _on_page(self, units: Positions, quantity: str, is_there: Mask | None = None) -> Floats:
        """What the pages show of a quantity, in its unit; NaN where there is no row.

        :param is_there: set where there is one.
        """
        found = np.full(len(units), np.nan)
        for pool, which in self._pools(units):
            places = np.flatnonzero(which)
            for identity, family in self._rows_of(pool, quantity):
                state = self._pages.held_state(identity.hold_seconds)
                has, values = family.shown_of(units[places], state)
                found[places[has]] = values
                if is_there is not None:
                    is_there[places[has]] = True
        return found

    def _by_nodes(self, track: Track, signs: Sequence[Sign]) -> Mask:
        kind = track.fault.kind.name
        found = {node: self._shown_by_node(node, kind) for node in {node for node, _ in track.nodes}}
        shown = ((found[node], ids) for node, ids in track.nodes)
        return np.array([those is None or not those.isdisjoint(ids) for those, ids in shown], np.bool_)

    def _shown_by_node(self, name: str, kind: str) -> Set[str] | None:
        """The devices that the status of a node, as the server has it, shows as unhealthy; None: all."""
        node = self._cluster.nodes.get(name)
        if node is None:
            return frozenset()
        if kind in (NODE_DOWN, KUBELET_RESTART):
            conditions = node.item["status"].get("conditions") or ()
            is_ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
            return frozenset() if is_ready else None
        return _missing_devices(node, is_plugin=kind == PLUGIN_DOWN)

    def _by_events(self, track: Track, signs: Sequence[Sign]) -> Mask:
        kind = track.fault.kind.name
        reason = NODE_EVENTS.get(kind, "DeviceUnhealthy")
        if kind in NODE_EVENTS:
            return np.array([(node, reason) in self._told for node, _ in track.nodes], np.bool_)
        told = {
            node: {text.partition(": ")[0] for text in self._told.get((node, reason), ())}
            for node in {node for node, _ in track.nodes}
        }
        return np.array([not told[node].isdisjoint(ids) for node, ids in track.nodes], np.bool_)


def _values_of(level: Level, quantity: str, units: Positions) -> Floats:
    """The values of some units, NaN where they do not have the quantity."""
    if quantity not in level.arrays:
        return np.full(len(units), np.nan)
    return np.where(level.mask(quantity)[units], level.arrays[quantity][units], np.nan)


def _missing_devices(node: ClusterNode, *, is_plugin: bool) -> Set[str]:
    """The unhealthy devices of resources of which a node can give as many less as are unhealthy."""
    status = node.item["status"]
    capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    of_resources: dict[str, set[str]] = {}
    counts: dict[str, int] = {}
    for slot in node.devices.slots:
        if is_plugin or slot.device_id in node.health.unhealthy:
            of_resources.setdefault(slot.resource, set()).add(slot.device_id)
            counts[slot.resource] = counts.get(slot.resource, 0) + 1
    found: set[str] = set()
    for resource, ids in of_resources.items():
        has, gives = str(capacity.get(resource, "")), str(allocatable.get(resource, ""))
        if has.isdecimal() and gives.isdecimal() and int(has) - int(gives) >= counts[resource]:
            found |= ids
    return found
