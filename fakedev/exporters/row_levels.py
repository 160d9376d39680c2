"""Levels of entities that only pages have: the page itself, its nodes, and processes, as exporters list them.

A state has none of them: they are added when a page of an identity that shows them is rendered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.entities.state import LazyArrays, Level, Positions, State, overlaid
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.levels import DEVICE, UNIT
from fakedev.fleet.spec.quantities import PROCESS_QUANTITIES
from fakedev.fleet.workloads.workload import Workload

Number = TypeVar("Number", bound=np.generic)
#: One entity for each node of a page, and one for the whole page.
NODE: Final = "node"
PAGE: Final = "page"
#: A workload on a device of which it has a share: one process. It has the device's quantities, but its memory is what
#: it holds there, its usage its share of the device's, and it was created at its start.
PROCESS: Final = "process"
#: The same on each tile or instance, or device without parts, with what it has there.
PROCESS_PART: Final = "process-part"
#: A container of a pod on a device or an instance: the same, with the sums of its processes there.
POD: Final = "pod"
#: The levels of workloads.
WORK_LEVELS: Final = (PROCESS, PROCESS_PART, POD)
#: The processes of a device that pages list, beginning with the oldest.
MAX_PROCESSES: Final = 64
_MEMORY: Final = "memory_used_bytes"
_CREATED: Final = "created_seconds"
#: Quantities of devices that only pages have: the number of processes, and how long the counters have counted.
COUNT: Final = "process_count"
UPTIME: Final = "uptime_seconds"
#: Devices have them if they have these.
FOLLOW_FROM: Final[Mapping[str, str]] = {COUNT: _MEMORY, UPTIME: _CREATED}
#: Drivers tell the memory of a process in whole MiB.
_MIB: Final = 1048576.0
_USAGE: Final = "usage_ratio"
_WALL: Final = "wall_seconds"
#: How late a page is.
LATE: Final = "late_seconds"
#: Quantities of a node that are the sums of those of its devices.
_SUMS: Final = (
    _USAGE, _MEMORY, COUNT, "lost", "memory_errors_correctable", "memory_errors_uncorrectable",
    "cache_errors_correctable", "cache_errors_uncorrectable",
)  # fmt: skip
#: All quantities of levels that have none of devices; those of a page are those of its first node.
PAGE_QUANTITIES: Final[Mapping[str, tuple[str, ...]]] = dict.fromkeys((NODE, PAGE), (_WALL, LATE, *_SUMS))
#: The numbers of processes: those of Linux, without the lowest.
_FIRST_PID: Final = 1000
_LAST_PID: Final = 4_194_303


class _Pods(NamedTuple):
    """The containers of pods on devices and instances: P of them, by unit, on each the oldest first.

    :ivar chosen: the pairs of workload and unit that are of a pod.
    :ivar of_pair: the container of each of these pairs.
    :ivar units: of each container, shape (P,).
    :ivar workloads: the number of the oldest one of each container, shape (P,).
    :ivar places: of each container among those of its unit, shape (P,).
    """

    chosen: Positions
    of_pair: Positions
    units: Positions
    workloads: Positions
    places: Positions

    @classmethod
    def of(cls, running: Sequence[Workload], workloads: Positions, units: Positions) -> _Pods:
        """The containers of some workloads.

        :param workloads, units: of each pair; workloads are numbers in ``running``, the oldest first.
        """
        codes: dict[object, int] = {}
        every = np.array([codes.setdefault(_container(workload), len(codes)) for workload in running], dtype=np.int64)
        has_pod = np.array([bool(workload.spec.pod) for workload in running], dtype=np.bool_)
        chosen = np.flatnonzero(has_pod[workloads])
        keys = units[chosen] * max(1, len(codes)) + every[workloads[chosen]]
        _, firsts, of_pair = np.unique(keys, return_index=True, return_inverse=True)
        pairs = chosen[firsts]
        order = np.lexsort((firsts, units[pairs]))
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order))
        of_unit = units[pairs][order]
        places = np.arange(len(of_unit)) - np.searchsorted(of_unit, of_unit)
        return cls(chosen, ranks[of_pair.reshape(-1)], of_unit, workloads[pairs][order], places)

    def summed(self, values: Floats) -> Floats:
        """The sums over the pairs of each container, shape (P,).

        :param values: of all pairs.
        """
        return np.bincount(self.of_pair, values[self.chosen], minlength=len(self.units)).astype(np.float64)

    @property
    def stride(self) -> int:
        """The places of a unit in the level of containers."""
        return _stride(self.places)


class PageLevels:
    """The levels of a fleet's pages. The processes are the present ones, also with a state of an earlier tick.

    :param shown: the quantities of processes that pages show.
    :param has_parts: pages show what processes have on each part.
    """

    def __init__(self, fleet: Fleet, shown: Collection[str] = (), has_parts: bool = False) -> None:
        self._fleet = fleet
        self._shown = frozenset(shown)
        self._has_parts = has_parts
        self._followed: tuple[int, object] | None = None
        self._running: list[Workload] = []
        #: The workload and the device of each process, by device; and the process of each pair of workload and device.
        self._workloads: Positions = np.zeros(0, dtype=np.int64)
        self._devices: Positions = np.zeros(0, dtype=np.int64)
        self._process_of_pair: Positions = np.zeros(0, dtype=np.int64)
        #: The unit and the workload of each pair, and the pairs in the order of their units.
        self._parts: Positions = self._devices
        self._owners: Positions = self._devices
        self._by_part: Positions = self._devices
        self._part_places: Positions = self._devices
        self.part_stride = 1
        #: The device or instance of each pair, and the containers of pods on these.
        self._units: Positions = np.zeros(0, dtype=np.int64)
        self._pods = _Pods.of((), self._units, self._units)
        #: The start of each process in simulated seconds, and its place among those of its device.
        self._starts = np.zeros(0)
        self._places: Positions = np.zeros(0, dtype=np.int64)
        self._made: tuple[State, object, State] | None = None
        #: The places of a device in the level of processes: at least as many as any device has processes.
        self.stride = 1
        self._versions: dict[RosterNode, object] = {}

    def completed(self, state: State, has_processes: bool) -> State:
        """A state with these levels: the same object for the same state and processes.

        :param has_processes: with the processes, too.
        """
        if has_processes:
            self._follow()
        if self._made is None or self._made[0] is not state or self._made[1] != self._followed:
            devices = state.levels[DEVICE]
            arrays, present = overlaid(devices.arrays), overlaid(devices.present)
            if _CREATED in devices.arrays:
                now = self._fleet.spec.epoch_seconds + state.seconds
                uptime = now - devices.arrays[_CREATED]
                if UPTIME in devices.arrays:
                    frozen = devices.arrays[UPTIME]
                    uptime = np.where(np.isnan(frozen), uptime, frozen)
                arrays[UPTIME], present[UPTIME] = uptime, devices.mask(_CREATED)
            levels = {**state.levels, DEVICE: Level(devices.count, arrays, present)}
            if has_processes:
                levels |= self._with_processes(levels[DEVICE], state.levels[UNIT])
            levels[NODE] = levels[PAGE] = self._nodes(levels[DEVICE], state.wall_seconds)
            self._made = state, self._followed, replace(state, levels=levels)
        return self._made[2]

    def _with_processes(self, devices: Level, units: Level) -> dict[str, Level]:
        """The levels of processes and containers, and the devices with their numbers of processes."""
        stride, count = self.stride, len(self._devices)
        shares = self._fleet.workloads.shares()
        listed = (self._places < stride) & (self._devices < devices.count)
        held = np.bincount(self._process_of_pair, shares.of(_MEMORY), minlength=count)
        own = {_MEMORY: np.floor(held / _MIB) * _MIB, _CREATED: self._fleet.spec.epoch_seconds + self._starts}
        own |= {
            name: np.bincount(self._process_of_pair, values, minlength=count).astype(np.float64)
            for name, values in self._of_pairs(devices, self._devices[self._process_of_pair]).items()
        }
        places = self._devices[listed] * stride + self._places[listed]
        of_processes = _overlaid(devices, stride, places, {name: values[listed] for name, values in own.items()})
        of_parts = {PROCESS_PART: self._of_parts(units)} if self._has_parts else {}
        arrays, masks = overlaid(devices.arrays), overlaid(devices.present)
        arrays[COUNT] = np.bincount(self._devices, minlength=devices.count)[: devices.count].astype(np.float64)
        masks[COUNT] = devices.mask(_MEMORY)
        return {
            DEVICE: Level(devices.count, arrays, masks), PROCESS: of_processes, POD: self._of_pods(units), **of_parts,
        }  # fmt: skip

    def _of_parts(self, units: Level) -> Level:
        """What processes have on each of their units."""
        listed = self._by_part[(self._part_places < self.part_stride) & (self._parts[self._by_part] < units.count)]
        starts = np.array([workload.start_seconds or 0.0 for workload in self._running])
        own = {_MEMORY: np.floor(self._fleet.workloads.shares().of(_MEMORY) / _MIB) * _MIB}
        own[_CREATED] = self._fleet.spec.epoch_seconds + starts[self._owners]
        own |= self._of_pairs(units, self._parts)
        places = np.empty(len(self._parts), dtype=np.int64)
        places[self._by_part] = self._parts[self._by_part] * self.part_stride + self._part_places
        return _overlaid(units, self.part_stride, places[listed], {name: own[name][listed] for name in own})

    def _of_pods(self, units: Level) -> Level:
        pods, stride = self._pods, self._pods.stride
        starts = np.array([workload.start_seconds or 0.0 for workload in self._running])
        own = {
            _MEMORY: pods.summed(np.floor(self._fleet.workloads.shares().of(_MEMORY) / _MIB) * _MIB),
            _CREATED: self._fleet.spec.epoch_seconds + (starts[pods.workloads] if len(starts) else starts),
        }
        own |= {name: pods.summed(values) for name, values in self._of_pairs(units, self._units).items()}
        listed = (pods.places < stride) & (pods.units < units.count)
        places = pods.units[listed] * stride + pods.places[listed]
        return _overlaid(units, stride, places, {name: values[listed] for name, values in own.items()})

    def _of_pairs(self, level: Level, units: Positions) -> dict[str, Floats]:
        """What pairs have of their own beside memory and start, of what is shown, and counted or present.

        :param level: of the units.
        :param units: of each pair, in that level.
        """
        workloads = self._fleet.workloads
        found: dict[str, Floats] = {
            name: getattr(workloads.table, name) - getattr(workloads.table, f"hidden_{name}")
            for name in PROCESS_QUANTITIES if self._fleet.tallies.count_work and name in self._shown
        }  # fmt: skip
        if _USAGE in level.arrays and _USAGE in self._shown:
            demanded = workloads.shares().of(_USAGE)
            total = np.bincount(units, demanded)[units]
            alike = 1.0 / np.bincount(units)[units]
            share = np.divide(demanded, total, out=alike, where=total > 0)
            found[_USAGE] = share * level.arrays[_USAGE][np.minimum(units, level.count - 1)]
        return found

    def _nodes(self, devices: Level, wall_seconds: float) -> Level:
        """The nodes: each is at the position of its first device, or of the one after it."""
        nodes = self._fleet.roster.nodes

        places = np.array([node.first for node in nodes], np.int64)  # a fleet may have no nodes
        firsts = np.repeat(places, [len(node.devices) for node in nodes])[: devices.count]

        def summed(name: str) -> Floats:
            sums: Floats = np.zeros(devices.count + 1)
            np.add.at(sums, firsts, np.where(devices.mask(name), devices.arrays[name], 0.0)[: len(firsts)])
            return sums

        arrays = overlaid(LazyArrays(dict.fromkeys(name for name in _SUMS if name in devices.arrays), summed))
        arrays[_WALL] = np.full(devices.count + 1, wall_seconds)
        if _WALL in devices.arrays:
            # The last collection of a node whose devices are all frozen was when the last of them froze.
            frozen, last = devices.arrays[_WALL], np.full(devices.count + 1, -np.inf)
            np.maximum.at(last, firsts, np.where(np.isnan(frozen), wall_seconds, frozen)[: len(firsts)])
            arrays[_WALL] = np.where(np.isinf(last), wall_seconds, last)
        arrays[LATE] = late = np.zeros(devices.count + 1)
        page_faults = self._fleet.page_faults
        for node in nodes if page_faults.by_fault else ():
            faults = page_faults.of(frozenset([node.name]))
            late[node.first] = faults.late_seconds if faults else 0.0
        return Level(devices.count + 1, arrays, {})

    def _follow(self) -> None:
        """Find the present processes, if the workloads or the devices have changed."""
        workloads, roster = self._fleet.workloads, self._fleet.roster
        if self._followed is not None and self._followed == (workloads.changes, roster):
            return
        self._followed = workloads.changes, roster
        self._versions = {}
        self._running = workloads.running()
        units = [workload.devices for workload in self._running]
        owners = np.repeat(np.arange(len(units)), [len(unit) for unit in units])
        devices = roster.parts.owners_of(np.concatenate(units) if units else np.zeros(0, dtype=np.int64))
        order = np.lexsort((owners, devices))
        by_device, of_workload = devices[order], owners[order]
        # A workload on several parts of a device is one process.
        begins = np.ones(len(order), dtype=np.bool_)
        begins[1:] = (np.diff(by_device) != 0) | (np.diff(of_workload) != 0)
        self._process_of_pair = np.empty(len(order), dtype=np.int64)
        self._process_of_pair[order] = np.cumsum(begins) - 1
        self._devices, self._workloads = by_device[begins], of_workload[begins]
        parts = np.concatenate(units) if units else np.zeros(0, dtype=np.int64)
        self._parts, self._owners, self._by_part = parts, owners, np.lexsort((owners, parts))
        by_part = parts[self._by_part]
        self._part_places = np.arange(len(by_part)) - np.searchsorted(by_part, by_part)
        self.part_stride = _stride(self._part_places)
        # Tiles are no boards of their own for exporters.
        is_tile = np.concatenate((np.zeros(roster.device_count, np.bool_), roster.parts.is_tile))
        self._units = np.where(is_tile[parts], devices, parts)
        self._pods = _Pods.of(self._running, owners, self._units)
        starts = [workload.start_seconds or 0.0 for workload in self._running]
        self._starts = np.array(starts)[self._workloads] if starts else np.zeros(0)
        self._places = np.arange(len(self._devices)) - np.searchsorted(self._devices, self._devices)
        self.stride = _stride(self._places)

    def processes(self, node: RosterNode) -> list[tuple[int, int, dict[str, str]]]:
        """The processes on a node's devices: position in the level, index of the device, and own facts of each."""
        found = []
        for process, own in self._facts(node).items():
            device = int(self._devices[process])
            found.append((device * self.stride + int(self._places[process]), device - node.first, own))
        return found

    def processes_on_parts(self, node: RosterNode) -> list[tuple[int, int, dict[str, str]]]:
        """What processes have on each part: position in the level, unit, and own facts of each."""
        of_process = self._facts(node)
        units = self._parts[self._by_part]
        found = []
        for span in self._spans(node, units):
            for pair in span:
                own = of_process.get(int(self._process_of_pair[self._by_part[pair]]))
                place, unit = int(self._part_places[pair]), int(units[pair])
                if own is not None and place < MAX_PROCESSES:
                    found.append((unit * self.part_stride + place, unit, own))
        return found

    def _facts(self, node: RosterNode) -> dict[int, dict[str, str]]:
        """The own facts of each listed process of a node, by its number."""
        found: dict[int, dict[str, str]] = {}
        used: set[int] = set()
        for process in self._of_node(node):
            workload = self._running[int(self._workloads[process])]
            if self._places[process] < MAX_PROCESSES:
                pid = process_number(workload.key, int(self._devices[process]) - node.first)
                while pid in used:
                    pid += 1
                used.add(pid)
                found[process] = {"pid": str(pid), "process": workload.spec.name}
        return found

    def _spans(self, node: RosterNode, units: Positions) -> list[range]:
        """Where a node's devices and parts are in an array of units that is sorted."""
        parts = self._fleet.roster.parts
        ranges = [range(node.first, node.first + len(node.devices))]
        if node.pool.has_parts and len(node.devices):
            ranges.append(range(parts.of(node.devices[0]).start, parts.of(node.devices[-1]).stop))
        return [range(*np.searchsorted(units, (each.start, each.stop)).tolist()) for each in ranges]

    def pods(self, node: RosterNode) -> list[tuple[int, int, tuple[str, str, str]]]:
        """The containers on a node's devices and instances: position in the level, unit, and the container of each."""
        self._follow()
        pods = self._pods
        found = []
        for span in self._spans(node, pods.units):
            for pod in span:
                unit, place = int(pods.units[pod]), int(pods.places[pod])
                spec = self._running[int(pods.workloads[pod])].spec
                if place < MAX_PROCESSES:
                    position = unit * pods.stride + place
                    found.append((position, unit, (spec.pod, spec.namespace, spec.container)))
        return found

    @property
    def pod_stride(self) -> int:
        """The places of a device or instance in the level of containers."""
        return self._pods.stride

    def version(self, node: RosterNode) -> object:
        """The processes of a node, with their devices: the same object as long as no workload starts or ends."""
        self._follow()
        if node not in self._versions:
            self._versions[node] = self._version(node)
        return self._versions[node]

    def _version(self, node: RosterNode) -> object:
        every = self._of_node(node)
        ids = [self._running[number].workload_id for number in self._workloads[every.start : every.stop].tolist()]
        places = (self._devices[every.start : every.stop] - node.first).tolist()
        return self.stride, self.pod_stride, self.part_stride, ids, places

    def _of_node(self, node: RosterNode) -> range:
        """The numbers of the processes on a node's devices."""
        self._follow()
        first, last = np.searchsorted(self._devices, (node.first, node.first + len(node.devices))).tolist()
        return range(first, last)


def _stride(places: Positions) -> int:
    """The places that each unit has in a level: at least as many as are used; a power of two, so it seldom changes."""
    return min(MAX_PROCESSES, 1 << int(places.max(initial=0)).bit_length())


def _container(workload: Workload) -> object:
    """What distinguishes a container from others; of a workload without a pod, the workload."""
    spec = workload.spec
    return (spec.pod, spec.namespace, spec.container) if spec.pod else workload.workload_id


def _overlaid(units: Level, stride: int, places: Positions, own: Mapping[str, Floats]) -> Level:
    """A level of places of units: each has what its unit has, but some quantities of its own.

    :param own: by quantity, at the places.
    """
    arrays = overlaid(_repeated(units.arrays, stride))
    for name, values in own.items():
        of_all = np.zeros(units.count * stride)
        of_all[places] = values
        arrays[name] = of_all
    return Level(units.count * stride, arrays, _repeated(units.present, stride))


def _repeated(of_devices: Mapping[str, NDArray[Number]], stride: int) -> LazyArrays[NDArray[Number]]:
    """Arrays of devices, each value for all places of processes of its device."""
    return LazyArrays(of_devices, lambda name: np.repeat(of_devices[name], stride))


def process_number(key: str, index: int) -> int:
    """The number of a process, of a workload with a key, on a device of a node: always the same one, in all shards."""
    digest = blake2b(f"{key}\0{index}".encode(), digest_size=8).digest()
    return _FIRST_PID + int.from_bytes(digest, "big") % (_LAST_PID - MAX_PROCESSES - _FIRST_PID)
