"""Series of workloads, for /workloads/metrics: an identity over running workloads and their pairs with devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray
from zope.interface import implementer

from fakedev.exporters.identity import FamilySpec, Identity, LabelSpec, NumberFormat, RowSpec
from fakedev.exporters.page import LabelCache, Page
from fakedev.exporters.sources import Entity, ISource
from fakedev.fleet.entities.randomness import Floats
from fakedev.fleet.entities.state import Level, State
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.quantities import ENGINES

#: The names of all families begin with it.
PREFIX: Final = "fakedev_workload_"
#: The levels: workloads, and pairs of a workload and one of its devices.
WORKLOAD: Final = "workload"
PAIR: Final = "workload_device"
#: A group of entities of one level: the level and the index of the first.
Chunk = tuple[str, int]
_ENTITIES_OF_A_CHUNK: Final = 32
#: Chunks whose texts are looked for in one call: some milliseconds.
_CHUNKS_AT_ONCE: Final = 400
#: The highest number of pairs on the page.
MAX_PAIRS: Final = 50_000


@implementer(ISource)
class WorkloadSource:
    """The workloads of a fleet in the order of their start, in chunks.

    :param max_pairs: the highest number of pairs: all those of the oldest workloads.
    """

    def __init__(self, fleet: Fleet, max_pairs: int = MAX_PAIRS) -> None:
        self._fleet = fleet
        self.seed = fleet.spec.seed
        self._max_pairs = max_pairs
        self._changes = -1
        self._ids: NDArray[np.object_] = np.zeros(0, dtype=np.object_)
        self._pair_owners = np.zeros(0, dtype=np.int64)
        self._pair_devices = np.zeros(0, dtype=np.int64)
        self._chunks: list[Chunk] = []
        self._versions: dict[Chunk, object] = {}
        self._state: State | None = None

    def chunks(self) -> list[Chunk]:
        """All current chunks, in the order of the page."""
        self._follow()
        return self._chunks

    @property
    def moment(self) -> object:
        """Another one whenever the running workloads, or the devices, are others."""
        return self._fleet.workloads.changes, self._fleet.roster

    def entities(self, level: str, group: Chunk) -> Sequence[Entity]:
        """The workloads or pairs of a chunk, with their facts."""
        self._follow()
        if level != group[0]:
            return []
        first = group[1]
        if level == WORKLOAD:
            some = self._ids[first : first + _ENTITIES_OF_A_CHUNK].tolist()
            return list(enumerate(map(self._facts, some), first))
        owners = self._pair_owners[first : first + _ENTITIES_OF_A_CHUNK].tolist()
        devices = self._pair_devices[first : first + _ENTITIES_OF_A_CHUNK]
        roster = self._fleet.roster
        nodes = [roster.nodes[place] for place in roster.node_positions(devices).tolist()]
        facts = {owner: self._facts(self._ids[owner]) for owner in set(owners)}
        return [
            (position, {**facts[owner], "node": node.name, "device": roster.unit_name(device).partition("/")[2]})
            for position, (owner, device, node) in enumerate(zip(owners, devices.tolist(), nodes, strict=True), first)
        ]

    def version(self, group: Chunk) -> object:
        self._follow()
        if group not in self._versions:
            level, first = group
            last = first + _ENTITIES_OF_A_CHUNK
            if level == WORKLOAD:
                version: object = self._ids[first:last].tolist()
            else:
                owners, devices = self._pair_owners[first:last], self._pair_devices[first:last]
                ids = self._ids[owners].tolist()
                # After a reload the same index may be another device.
                version = ids, devices.tolist(), self._fleet.roster
            self._versions[group] = version
        return self._versions[group]

    def previous(self, group: Chunk) -> None:
        """None: chunks are not matched across reloads."""

    def completed(self, state: State) -> State:
        return state

    @property
    def is_counted(self) -> bool:
        """Whether the state of the fleet's tick is known already."""
        return self._state is not None and self._state.tick == self._fleet.state.tick

    def prepare(self) -> bool:
        """Find the kinds of work of the running workloads, once; return whether they were known already."""
        table = self._fleet.workloads.table
        is_known = "kinds_of_work" in vars(table)
        _ = table.kinds_of_work
        return is_known

    def state(self) -> State:
        """The state of the workloads at the fleet's tick."""
        shown = self._fleet.state
        if self._state is None or not self.is_counted:
            workloads = self._fleet.workloads
            level = workloads.level(shown.seconds)
            arrays = {name: _shown(name, level) for name in level.arrays} | {"one": np.ones(level.count)}
            parts = workloads.shares().parts
            levels = {
                WORKLOAD: Level(level.count, arrays, level.present),
                PAIR: Level(len(parts), {"load_ratio": parts}, {}),
            }
            self._state = State(shown.tick, shown.seconds, shown.wall_seconds, levels, workloads.changes)
        return self._state

    def _follow(self) -> None:
        """Update the running workloads, if they have changed."""
        workloads = self._fleet.workloads
        if self._changes == workloads.changes:
            return
        self._changes = workloads.changes
        table = workloads.table
        self._ids, self._versions = table.ids, {}
        ends = np.cumsum(table.pair_counts)
        pairs = int(ends[ends <= self._max_pairs].max(initial=0))
        self._pair_owners, self._pair_devices = table.owner[:pairs], table.device[:pairs]
        sizes = ((WORKLOAD, len(table)), (PAIR, pairs))
        self._chunks = [(level, first) for level, size in sizes for first in range(0, size, _ENTITIES_OF_A_CHUNK)]

    def _facts(self, workload_id: str) -> Mapping[str, str]:
        spec = self._fleet.workloads.by_id[workload_id].spec
        return {
            "workload": workload_id,
            "name": spec.name,
            "namespace": spec.namespace,
            "pod": spec.pod,
            "container": spec.container,
            "kind": spec.kind,
            "named_node": spec.node,
        }


def _shown(quantity: str, level: Level) -> Floats:
    """A quantity of each workload: the mean of its devices for engines and bandwidths, else the sum."""
    values = level.arrays[quantity]
    return values / level.arrays["devices"] if quantity in ENGINES else values


def _labels(*names: str) -> tuple[LabelSpec, ...]:
    return tuple(LabelSpec(name, f"{{{name}}}", optional=name in _OPTIONAL) for name in names)


#: Labels that may be missing on a workload.
_OPTIONAL: Final = ("namespace", "pod", "container")
_ENGINES: Final = ("tensor", "copy", "encoder", "decoder", "render")


def _gauge(name: str, help_text: str, *rows: RowSpec) -> FamilySpec:
    return FamilySpec(f"{PREFIX}{name}", "gauge", help_text, NumberFormat.GO, rows)


def _row(quantity: str, **labels: str) -> RowSpec:
    own = tuple(LabelSpec(name, value) for name, value in labels.items())
    return RowSpec(quantity, labels=own, level=WORKLOAD)


def _both_ways(link: str) -> tuple[RowSpec, RowSpec]:
    return (
        _row(f"{link}_tx_bytes_per_second", direction="tx"),
        _row(f"{link}_rx_bytes_per_second", direction="rx"),
    )


WORKLOAD_SERIES: Final = Identity(
    name="fakedev-workloads",
    version="",
    labels=_labels("workload", "name", *_OPTIONAL),
    families=(
        _gauge(
            "info",
            "1; what kind of work the workload does, and the node that it named.",
            RowSpec("one", labels=(*_labels("kind"), LabelSpec("node", "{named_node}", optional=True)), level=WORKLOAD),
        ),
        _gauge("devices", "Simulated devices that the workload is on.", _row("devices")),
        _gauge("run_seconds", "Simulated seconds since the workload began.", _row("run_seconds")),
        _gauge(
            "remaining_seconds",
            "Simulated seconds until it will be over, at the highest clock if it is an amount of work.",
            _row("remaining_seconds"),
        ),
        _gauge("progress_ratio", "Part of its profile that is done, where that has an end.", _row("progress_ratio")),
        _gauge(
            "load_ratio",
            "Load the workload put on each of its devices in this tick, without fluctuation.",
            _row("load_ratio"),
        ),
        _gauge(
            "usage_ratio",
            "Part of their compute engines that its devices gave to it in this tick, their mean.",
            _row("usage_ratio"),
        ),
        _gauge(
            "engine_active_ratio",
            "Part of other engines that its devices gave to it in this tick, their mean.",
            *[_row(f"{engine}_active_ratio", engine=engine) for engine in _ENGINES],
        ),
        _gauge("memory_used_bytes", "Memory that it holds, on all its devices.", _row("memory_used_bytes")),
        _gauge(
            "memory_bandwidth_ratio",
            "Part of their memory's bandwidth that its devices gave to it in this tick, their mean.",
            _row("memory_bandwidth_ratio"),
        ),
        _gauge("pcie_bytes_per_second", "PCIe traffic that it makes, over all its devices.", *_both_ways("pcie")),
        _gauge(
            "fabric_bytes_per_second",
            "Traffic that it makes on links to other devices, over all its devices.",
            *_both_ways("fabric"),
        ),
        _gauge(
            "device_load_ratio",
            "Part of this device that the workload gets in this tick, with its fluctuation.",
            RowSpec("load_ratio", labels=_labels("node", "device"), level=PAIR),
        ),
    ),
)


class WorkloadPage(Page[Chunk]):
    """The page of all running workloads, in order of their start.

    :param cache: pages in several formats may share it.
    """

    def __init__(self, cache: LabelCache[Chunk], source: WorkloadSource, openmetrics: bool = False) -> None:
        super().__init__(cache, source.chunks(), openmetrics)
        self._source = source
        self._has_counted = False
        #: The workloads whose texts are looked for; see WorkloadSource.moment.
        self._looked_for: object = None

    def compile(self) -> bool:
        """Update some of the texts with the current workloads.

        The state of a tick takes a call of its own: with 60,000 workloads it takes as long as the texts. Not twice in a
        row, since each turn of an advance has a new tick.
        """
        if not (self._has_counted or self._source.is_counted):
            if self._source.prepare():
                self._source.state()
                self._has_counted = True
            return False
        self._has_counted = False
        self.regroup(self._source.chunks())
        if self._looked_for != self._source.moment:
            self._looked_for, self._left = self._source.moment, len(self._groups)
        return self._compile(_CHUNKS_AT_ONCE)


def workload_pages(
    fleet: Fleet, max_pairs: int = MAX_PAIRS
) -> tuple[WorkloadSource, WorkloadPage, WorkloadPage]:
    """The source of states of a fleet's workloads, their page, and their page as OpenMetrics."""
    source = WorkloadSource(fleet, max_pairs)
    cache: LabelCache[Chunk] = LabelCache(WORKLOAD_SERIES, source)
    return source, WorkloadPage(cache, source), WorkloadPage(cache, source, openmetrics=True)
