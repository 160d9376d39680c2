"""Follows the objects ``DeviceFault`` of a cluster: strikes their devices, looks for the signs, writes their status.

Faults go the way of all others, as events of the fleet, so that a record replays them. After each tick each mouth is
asked which of the devices show the fault: what was seen once stays seen. What is asked is what readers get: the
numbers of pages, the records of the file for NVML, the node as the API server answered, Events that it took.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import is_
from typing import Any, Final

import numpy as np
from twisted.internet.defer import CancelledError
from zope.interface import implementer

from fakedev.base.errors import Refused
from fakedev.exporters.cache import Pages
from fakedev.exporters.family import Family
from fakedev.exporters.identity import Identity
from fakedev.fleet.door import fault_id_of
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Level, Mask, Positions
from fakedev.fleet.events import ClearFaults, InjectFault
from fakedev.fleet.faults.page_faults import PageFaults
from fakedev.fleet.faults.rules import Fault
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.levels import UNIT
from fakedev.fleet.spec.fault_kinds import Scope
from fakedev.fleet.spec.offers import Resources
from fakedev.kubernetes.api_client import ApiClient
from fakedev.kubernetes.cluster import Cluster
from fakedev.kubernetes.device_fault import FAULTS_PATH, DeviceFault, Landing, status_of
from fakedev.kubernetes.fault_signs import NODE_EVENTS, SIGNS, Sign, makes_unhealthy
from fakedev.kubernetes.health import KUBELET_RESTART, NODE_DOWN, PLUGIN_DOWN
from fakedev.kubernetes.nodes import ClusterNode
from fakedev.kubernetes.watch import IWatchHandler
from fakedev.kubernetes.writer import AGAIN_SECONDS, Writer
from fakedev.runtime.http_client import ApiError

#: The values of a quantity that the file for NVML has now: positions of boards, ascending, and values, both (B,).
NvmlValues = Callable[[str], tuple[Positions, Floats]]
#: A fault that is over is looked for so long, in seconds: Events and patches may come late.
_LATE_SECONDS: Final = 60.0
#: The quantities by which faults of all series are looked for, where the fault names no metric.
_USUAL: Final = ("temperature_celsius", "power_watts", "usage_ratio")
#: Kinds of series that a look at the page can tell from a page without faults.
_OF_SERIES: Final[Mapping[str, Callable[[Floats, Mapping[str, float]], Mask]]] = {
    "nan": lambda now, values: np.isnan(now),
    "sentinel": lambda now, values: np.isclose(now, values["value"]),
}
_ABSENT: Final = "absent"


@dataclass
class _Track:
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
    began_at: float = 0.0
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


@dataclass
class _Known:
    """An object, and what was done for it.

    :ivar struck: the nodes that were struck.
    :ivar refused: the nodes that the fleet refused to strike, which are not tried again alone.
    :ivar earlier: what an earlier process wrote of steps.
    :ivar seconds: simulated time of the first strike.
    :ivar sent: the status that was written last.
    """

    fault: DeviceFault
    tracks: list[_Track] = field(default_factory=list)
    struck: set[str] = field(default_factory=set)
    refused: frozenset[str] = frozenset()
    earlier: dict[int, Landing] = field(default_factory=dict)
    seconds: float = 0.0
    problem: str = ""
    sent: object = None
    is_writing: bool = False
    is_done: bool = False

    def landings(self) -> list[Landing]:
        """Of each step, all its faults together."""
        found = []
        for number, step in enumerate(self.fault.steps):
            own = [track.landing() for track in self.tracks if track.step == number]
            earlier = self.earlier.get(number)
            if earlier is not None and (not own or earlier.landed):
                own = [earlier]
            total = own[0] if own else Landing(step.kind)
            for each in own[1:]:
                total = total.with_other(each)
            found.append(total)
        return found


#: What another process goes on from, by the UID of an object.
KeptFaults = Mapping[str, Mapping[str, Any]]


@implementer(IWatchHandler)
class FaultObjects(Writer):
    """The objects of a cluster. It is the handler of their watch.

    :param shard: the number of this process's shard, under which it writes.
    :param nvml: reads the file for NVML; None: there is none.
    :param kept: what the process before this one has left.
    """

    activity = "writing the status of a DeviceFault"

    def __init__(
        self, client: ApiClient, cluster: Cluster, fleet: Fleet, pages: Pages, shard: int,
        nvml: NvmlValues | None, resources: Resources, kept: KeptFaults,
    ) -> None:  # fmt: skip
        super().__init__(client)
        self._cluster, self._fleet, self._pages, self._shard, self._nvml = cluster, fleet, pages, str(shard), nvml
        self._has_counts = resources is not Resources.DRA
        self._kept = dict(kept)
        self._known: dict[str, _Known] = {}
        self._is_listed = self._is_away = False
        #: The messages of Events that the API server has taken, by node and reason.
        self._told: dict[tuple[str, str], set[str]] = {}
        self._families: dict[tuple[int, str], list[tuple[Identity, Family]]] = {}
        #: The nodes of fleet and cluster as they were last, and whether an object is to be compared with them.
        self._nodes: tuple[object, object] = None, None
        self._has_news = False

    # -- the watch ---------------------------------------------------------------------------------

    def listed(self, items: list[DeviceFault]) -> None:
        uids = {each.uid for each in items}
        for uid in [uid for uid in self._known if uid not in uids]:
            self._end(uid)
        for uid in [uid for uid in self._kept if uid not in uids]:
            self._clear([fault_id for _, fault_id in self._kept.pop(uid)["faults"]])
        self._is_listed, self._is_away = True, False
        for item in items:
            self.changed(item)

    def changed(self, item: DeviceFault) -> None:
        known = self._known.get(item.uid)
        if known is not None and known.fault.generation == item.generation:
            known.fault = item
            return
        if known is not None:
            self._end(item.uid)
        self._known[item.uid] = self._resumed(item)
        self._has_news = True

    def deleted(self, item: DeviceFault) -> None:
        self._end(item.uid)

    def lost(self, reason: str) -> None:
        """What is known stays until there is a new list."""

    def pause(self) -> None:
        """Another fakedev writes now."""
        self._is_away = True

    def _resumed(self, item: DeviceFault) -> _Known:
        """An object that is new to this process, perhaps not to the one before."""
        known = _Known(item, problem=item.problem)
        kept = self._kept.pop(item.uid, {})
        shards = item.status.get("shards")
        own = shards.get(self._shard) if isinstance(shards, dict) else None
        is_same = isinstance(own, dict) and own.get("generation") == item.generation
        if isinstance(own, dict) and is_same and (kept or item.status.get("phase") == "Over"):
            known.earlier = {number: Landing.read(each) for number, each in enumerate(own.get("steps") or ())}
            known.is_done = not kept
        if kept.get("generation") == item.generation:
            known.struck, known.seconds = set(kept["nodes"]), float(kept["seconds"])
            known.tracks = [
                self._track(step, self._fleet.faults.by_id[fault_id])
                for step, fault_id in kept["faults"]
                if fault_id in self._fleet.faults.by_id
            ]
        elif kept:
            self._clear([fault_id for _, fault_id in kept["faults"]])
        return known

    def kept(self) -> KeptFaults:
        """What the process after this one goes on from."""
        if not self._is_listed:
            return self._kept
        return {
            uid: {
                "generation": known.fault.generation, "seconds": known.seconds, "nodes": sorted(known.struck),
                "faults": [[track.step, track.fault_id] for track in known.tracks],
            }
            for uid, known in self._known.items()
            if known.struck
        }  # fmt: skip

    def _end(self, uid: str) -> None:
        known = self._known.pop(uid, None)
        if known is not None:
            self._clear([track.fault_id for track in known.tracks])

    def _clear(self, fault_ids: Sequence[str]) -> None:
        standing = {each.fault_id for each in self._fleet.faults.standing()}
        found = tuple(each for each in fault_ids if each in standing)
        if found:
            self._fleet.apply(ClearFaults(found))
            self.log.info("{count} faults of a DeviceFault cleared", count=len(found))

    # -- the tick ----------------------------------------------------------------------------------

    def event_taken(self, event: Mapping[str, Any]) -> None:
        """The API server has taken an Event."""
        involved = event["involvedObject"]
        if involved["kind"] == "Node" and any(involved["name"] in known.struck for known in self._known.values()):
            self._told.setdefault((involved["name"], event["reason"]), set()).add(event["message"])

    def ticked(self) -> None:
        """A tick has ended: strike nodes that are new, look for signs, write what has changed."""
        if not self._known:
            self._told.clear()
            return
        now = self._client.clock.seconds()
        nodes = self._fleet.roster, self._cluster.nodes.pools_of_nodes
        if not all(map(is_, nodes, self._nodes)):
            self._nodes, self._has_news = nodes, True
            self._families.clear()
        if self._has_news:
            self._has_news = False
            for known in self._known.values():
                self._strike(known)
        for known in self._known.values():
            for track in known.tracks:
                is_gone = track.fault_id not in self._fleet.faults.by_id
                track.is_over |= is_gone or (bool(track.began) and not track.fault.lasts)
                is_late = track.is_over and bool(track.began) and now > track.began_at + _LATE_SECONDS
                if not track.landed and not is_late:
                    self._look(track, now)
            self._write(known)

    def _strike(self, known: _Known) -> None:
        """Strike the nodes that an object selects and that were not struck."""
        fault = known.fault
        if fault.problem or known.is_done:
            return
        roster = self._fleet.roster
        chosen = [
            (name, found.pool.devices_per_node)
            for name in self._selected(fault)
            if name not in known.struck and (found := roster.node(name)) is not None
        ]
        names = frozenset(name for name, _ in chosen)
        words = [word for name, count in chosen for word in fault.words(name, count)]
        if not words or names <= known.refused:
            return
        seconds = self._fleet.state.seconds
        begun = known.seconds if known.struck else seconds
        tracks: list[_Track] = []
        try:
            for number, step in enumerate(fault.steps):
                spec = step.spec(words, seconds - begun)
                if spec is not None:
                    fault_id = fault_id_of(self._fleet.apply(InjectFault(spec)).sequence)
                    tracks.append(self._track(number, self._fleet.faults.by_id[fault_id]))
        except Refused as refusal:
            self._clear([track.fault_id for track in tracks])
            known.refused = names
            if not known.struck:
                known.problem = refusal.text
            return
        known.problem, known.seconds, known.refused = "", begun, frozenset()
        known.struck |= names
        known.tracks += tracks
        self.log.info("DeviceFault {name} strikes {count} nodes", name=fault.name, count=len(names))

    def _selected(self, fault: DeviceFault) -> Iterator[str]:
        for node in self._cluster.nodes:
            if fault.selects(node.name, node.item["metadata"].get("labels") or {}):
                yield node.name

    # -- the signs ---------------------------------------------------------------------------------

    def _track(self, step: int, fault: Fault) -> _Track:
        track = _Track(step, fault.fault_id, fault, fault.devices, self._nodes_of(fault.devices))
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

    def _choose_mouths(self, track: _Track) -> None:
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

    def _look(self, track: _Track, now: float) -> None:
        """Note which devices show a fault where."""
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
            track.began, track.began_at = _written(now), now
        looks = {"state": self._by_state, "page": self._by_page, "nvml": self._by_nvml, "event": self._by_events,
                 "node": self._by_nodes}  # fmt: skip
        for mouth, of in track.of.items():
            if (of & ~track.seen[mouth]).any():
                track.seen[mouth] |= looks[mouth](track, signs)
        if track.has_landed:
            track.landed = _written(now)

    def _by_state(self, track: _Track, signs: Sequence[Sign]) -> Mask:
        if not signs:
            return track.fault.on | (not track.fault.lasts)
        level = self._fleet.state.levels[UNIT]
        return self._holding(track, signs, lambda quantity: _values_of(level, quantity, track.units))

    def _by_nvml(self, track: _Track, signs: Sequence[Sign]) -> Mask:
        assert self._nvml is not None
        nvml = self._nvml

        def values(quantity: str) -> Floats:
            boards, shown = nvml(quantity)
            places = np.minimum(np.searchsorted(boards, track.units), max(len(boards) - 1, 0))
            has = boards[places] == track.units if len(boards) else np.zeros(len(track.units), np.bool_)
            return np.where(has, shown[places], np.nan) if len(boards) else np.full(len(track.units), np.nan)

        return self._holding(track, signs, values)

    def _holding(self, track: _Track, signs: Sequence[Sign], values: Callable[[str], Floats]) -> Mask:
        """The devices that show any of some signs."""
        found = np.zeros(len(track.units), np.bool_)
        for sign in signs:
            now = values(sign.quantity)
            has = ~np.isnan(now)
            before = np.nan_to_num(track.before.get(sign.quantity, np.zeros(len(now))))
            found |= has & sign.holds(before, np.where(has, now, 0.0), track.fault.values)
        return found

    def _by_page(self, track: _Track, signs: Sequence[Sign]) -> Mask:
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

    def _by_nodes(self, track: _Track, signs: Sequence[Sign]) -> Mask:
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

    def _by_events(self, track: _Track, signs: Sequence[Sign]) -> Mask:
        kind = track.fault.kind.name
        reason = NODE_EVENTS.get(kind, "DeviceUnhealthy")
        if kind in NODE_EVENTS:
            return np.array([(node, reason) in self._told for node, _ in track.nodes], np.bool_)
        told = {
            node: {text.partition(": ")[0] for text in self._told.get((node, reason), ())}
            for node in {node for node, _ in track.nodes}
        }
        return np.array([not told[node].isdisjoint(ids) for node, ids in track.nodes], np.bool_)

    # -- the status --------------------------------------------------------------------------------

    def _write(self, known: _Known) -> None:
        """Write the status of an object, if it has changed."""
        if known.is_writing or self._is_away or self._is_stopped or known.fault.uid in self.retries:
            return
        now = _written(self._client.clock.seconds())
        ids = [track.fault_id for track in known.tracks]
        status = status_of(known.fault, self._shard, known.landings(), ids, known.problem, now)
        if status != known.sent and not _is_in(status, known.fault.status):
            known.is_writing = True
            self._run(self._send(known, status))

    async def _send(self, known: _Known, status: Mapping[str, Any]) -> None:
        path = f"{FAULTS_PATH}/{known.fault.name}/status"
        try:
            item = await self._client.merge_patch(path, {"status": status}, flow="faults")
            known.sent = status
            if isinstance(item, dict):
                known.fault = replace(known.fault, status=item.get("status") or {})
        except CancelledError:
            raise
        except ApiError as error:
            if error.code != 404:  # else it is gone
                self.retries.later(known.fault.uid, AGAIN_SECONDS, lambda: None)
                if error.code != 403:  # else the client has logged it
                    self.log.error("the status of DeviceFault {name}: {error}", name=known.fault.name, error=str(error))
        finally:
            known.is_writing = False


def _is_in(part: object, whole: object) -> bool:
    """Whether a merge patch would change nothing."""
    if isinstance(part, Mapping) and isinstance(whole, Mapping):
        return all(name in whole and _is_in(value, whole[name]) for name, value in part.items())
    return part == whole


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


def _written(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
