"""Levels of entities that only pages have: the page itself, its nodes, and processes, as exporters list them.

A state has none of them: they are added when a page of an identity that shows them is rendered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from fakedev.sim.entities.randomness import Floats
from fakedev.sim.entities.roster import RosterNode
from fakedev.sim.entities.state import LazyArrays, Level, Positions, State, overlaid
from fakedev.sim.fleet import Fleet
from fakedev.sim.levels import DEVICE
from fakedev.sim.workloads.workload import Workload
from fakedev.spec.tallies import OF_PROCESSES

Number = TypeVar("Number", bound=np.generic)
#: One entity for each node of a page, and one for the whole page.
NODE: Final = "node"
PAGE: Final = "page"
#: A workload on a device of which it has a share: one process. It has the device's quantities, but its memory is what
#: it holds there, its usage its share of the device's, and it was created at its start.
PROCESS: Final = "process"
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
#: Quantities of a node that are the sums of those of its devices.
_SUMS: Final = (_USAGE, _MEMORY, COUNT, "lost")
#: All quantities of levels that have none of devices; those of a page are those of its first node.
PAGE_QUANTITIES: Final[Mapping[str, tuple[str, ...]]] = dict.fromkeys((NODE, PAGE), (_WALL, *_SUMS))
#: The numbers of processes: those of Linux, without the lowest.
_FIRST_PID: Final = 1000
_LAST_PID: Final = 4_194_303


class PageLevels:
    """The levels of a fleet's pages. The processes are the present ones, also with a state of an earlier tick.

    :param shown: the quantities of processes that pages show.
    """

    def __init__(self, fleet: Fleet, shown: Collection[str] = ()) -> None:
        self._fleet = fleet
        self._shown = frozenset(shown)
        self._followed: tuple[int, object] | None = None
        self._running: list[Workload] = []
        #: The workload and the device of each process, by device; and the process of each pair of workload and device.
        self._workloads: Positions = np.zeros(0, dtype=np.int64)
        self._devices: Positions = np.zeros(0, dtype=np.int64)
        self._process_of_pair: Positions = np.zeros(0, dtype=np.int64)
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
                arrays[UPTIME], present[UPTIME] = now - devices.arrays[_CREATED], devices.mask(_CREATED)
            levels = {**state.levels, DEVICE: Level(devices.count, arrays, present)}
            if has_processes:
                levels |= self._with_processes(levels[DEVICE])
            levels[NODE] = levels[PAGE] = self._nodes(levels[DEVICE], state.wall_seconds)
            self._made = state, self._followed, replace(state, levels=levels)
        return self._made[2]

    def _with_processes(self, devices: Level) -> dict[str, Level]:
        """The level of processes, and the devices with their numbers of processes."""
        stride = self.stride
        held = np.bincount(
            self._process_of_pair, self._fleet.workloads.shares().of(_MEMORY), minlength=len(self._devices)
        )
        listed = (self._places < stride) & (self._devices < devices.count)
        places = self._devices[listed] * stride + self._places[listed]
        memory, created = np.zeros((2, devices.count * stride))
        memory[places] = np.floor(held[listed] / _MIB) * _MIB
        created[places] = self._fleet.spec.epoch_seconds + self._starts[listed]
        of_processes = overlaid(_repeated(devices.arrays, stride))
        of_processes.update({_MEMORY: memory, _CREATED: created})
        for name in self._own_quantities(devices):
            of_processes[name] = np.zeros(len(memory))
            of_processes[name][places] = self._of_processes(devices, name)[listed]
        arrays, masks = overlaid(devices.arrays), overlaid(devices.present)
        arrays[COUNT] = np.bincount(self._devices, minlength=devices.count)[: devices.count].astype(np.float64)
        masks[COUNT] = devices.mask(_MEMORY)
        return {
            DEVICE: Level(devices.count, arrays, masks),
            PROCESS: Level(len(memory), of_processes, _repeated(devices.present, stride)),
        }

    def _own_quantities(self, devices: Level) -> list[str]:
        """What processes have of their own beside memory and start, of what is shown, and counted or present."""
        tallies = OF_PROCESSES if self._fleet.tallies.count_work else ()
        usage = (_USAGE,) if _USAGE in devices.arrays else ()
        return [name for name in (*tallies, *usage) if name in self._shown]

    def _of_processes(self, devices: Level, quantity: str) -> Floats:
        """A quantity of all processes that they have of their own."""
        workloads, of_pair, count = self._fleet.workloads, self._process_of_pair, len(self._devices)
        if quantity != _USAGE:
            return np.bincount(of_pair, getattr(workloads.table, quantity), minlength=count).astype(np.float64)
        demanded = np.bincount(of_pair, workloads.shares().of(_USAGE), minlength=count)
        total = np.bincount(self._devices, demanded)[self._devices]
        alike = 1.0 / np.bincount(self._devices)[self._devices]
        known = np.minimum(self._devices, devices.count - 1)
        share: Floats = np.divide(demanded, total, out=alike, where=total > 0)
        return share * devices.arrays[_USAGE][known]

    def _nodes(self, devices: Level, wall_seconds: float) -> Level:
        """The nodes: each is at the position of its first device, or of the one after it."""
        nodes = self._fleet.roster.nodes

        def summed(name: str) -> Floats:
            places = np.array([node.first for node in nodes], np.int64)  # a fleet may have no nodes
            firsts = np.repeat(places, [len(node.devices) for node in nodes])[: devices.count]
            sums: Floats = np.zeros(devices.count + 1)
            np.add.at(sums, firsts, np.where(devices.mask(name), devices.arrays[name], 0.0)[: len(firsts)])
            return sums

        arrays = overlaid(LazyArrays(dict.fromkeys(name for name in _SUMS if name in devices.arrays), summed))
        arrays[_WALL] = np.full(devices.count + 1, wall_seconds)
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
        owners = np.repeat(np.arange(len(units)), [len(each) for each in units])
        devices = roster.parts.owners_of(np.concatenate(units) if units else np.zeros(0, dtype=np.int64))
        order = np.lexsort((owners, devices))
        by_device, of_workload = devices[order], owners[order]
        # A workload on several parts of a device is one process.
        begins = np.ones(len(order), dtype=np.bool_)
        begins[1:] = (np.diff(by_device) != 0) | (np.diff(of_workload) != 0)
        self._process_of_pair = np.empty(len(order), dtype=np.int64)
        self._process_of_pair[order] = np.cumsum(begins) - 1
        self._devices, self._workloads = by_device[begins], of_workload[begins]
        starts = [workload.start_seconds or 0.0 for workload in self._running]
        self._starts = np.array(starts)[self._workloads] if starts else np.zeros(0)
        self._places = np.arange(len(self._devices)) - np.searchsorted(self._devices, self._devices)
        # A power of two, so that it seldom changes.
        self.stride = min(MAX_PROCESSES, 1 << int(self._places.max(initial=0)).bit_length())

    def processes(self, node: RosterNode) -> list[tuple[int, int, dict[str, str]]]:
        """The processes on a node's devices: position in the level, index of the device, and own facts of each."""
        found: list[tuple[int, int, dict[str, str]]] = []
        used: set[int] = set()
        for process in self._of_node(node):
            place, index = int(self._places[process]), int(self._devices[process]) - node.first
            workload = self._running[int(self._workloads[process])]
            if place < MAX_PROCESSES:
                pid = process_number(workload.key, index)
                while pid in used:
                    pid += 1
                used.add(pid)
                position = (node.first + index) * self.stride + place
                found.append((position, index, {"pid": str(pid), "process": workload.spec.name}))
        return found

    def version(self, node: RosterNode) -> object:
        """The processes of a node, with their devices: the same object as long as no workload starts or ends."""
        self._follow()
        if node not in self._versions:
            self._versions[node] = self._version(node)
        return self._versions[node]

    def _version(self, node: RosterNode) -> object:
        every = self._of_node(node)
        ids = [self._running[number].workload_id for number in self._workloads[every.start : every.stop].tolist()]
        return self.stride, ids, (self._devices[every.start : every.stop] - node.first).tolist()

    def _of_node(self, node: RosterNode) -> range:
        """The numbers of the processes on a node's devices."""
        self._follow()
        first, last = np.searchsorted(self._devices, (node.first, node.first + len(node.devices))).tolist()
        return range(first, last)


def _repeated(of_devices: Mapping[str, NDArray[Number]], stride: int) -> LazyArrays[NDArray[Number]]:
    """Arrays of devices, each value for all places of processes of its device."""
    return LazyArrays(of_devices, lambda name: np.repeat(of_devices[name], stride))


def process_number(key: str, index: int) -> int:
    """The number of a process, of a workload with a key, on a device of a node: always the same one, in all shards."""
    digest = blake2b(f"{key}\0{index}".encode(), digest_size=8).digest()
    return _FIRST_PID + int.from_bytes(digest, "big") % (_LAST_PID - MAX_PROCESSES - _FIRST_PID)
