"""The running fleet as run-ai's fake-gpu-operator describes it, at ``/topology`` and ``/topology/nodes/NODE``.

It says who uses which GPU now. /topology answers as the operator's topology server.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID, uuid5

import numpy as np
from twisted.web.resource import IResource

from fakedev.exporters.cache import Selection
from fakedev.fleet.entities.roster import RosterNode
from fakedev.fleet.entities.selectors import no_node
from fakedev.fleet.fleet import Fleet
from fakedev.fleet.spec.offers import MigStrategy
from fakedev.fleet.spec.value_functions import bounds
from fakedev.fleet.spec.workload_spec import Activities, WorkloadSpec
from fakedev.web import paths
from fakedev.web.request import Request
from fakedev.web.resource import Resource
from fakedev.web.response import Response, json_response

if TYPE_CHECKING:
    from fakedev.kubernetes.runai.operator import GpuUse, NumaLayout, Topology

_MIB: Final = 2**20
_MEMORY: Final = "memory_used_bytes"
_NIL: Final = UUID(int=0)


def made_uid(spec: WorkloadSpec) -> str:
    """The UID of a workload's pod where no cluster gave it one: always the same for the same pod."""
    return str(uuid5(_NIL, f"{spec.namespace}/{spec.pod}"))


class _Work(NamedTuple):
    """A workload on a GPU, or on a part of it, with the part's share of the GPU's engines.

    :ivar memory_mib: as of :func:`_memory_mib`.
    """

    spec: WorkloadSpec
    compute_share: float
    memory_mib: float


class OperatorTopology:
    """What ``/topology`` and ``/topology/nodes/NODE`` show of a fleet.

    Most programs have none, so the modules of topologies are imported where one is used.

    :param uid_of: the UID of a workload's pod.
    :ivar is_on: whether the addresses exist.
    :ivar version: a number that changes with the topology that is used.
    """

    def __init__(self, fleet: Fleet, uid_of: Callable[[WorkloadSpec], str] = made_uid) -> None:
        self._fleet = fleet
        self._uid_of = uid_of
        self._topology: Topology | None = None
        #: The UIDs that a topology gives pods, by node and workload.
        self._uids: dict[tuple[str, str], str] = {}
        #: None: that of each pool.
        self._strategy: MigStrategy | None = None
        self.is_on = False
        self.version = 0

    def find_uids(self, uid_of: Callable[[str, str], str]) -> None:
        """From now on the UIDs of pods are those of a cluster, where it has them.

        :param uid_of: finds the UID by namespace and name; empty: it is not known.
        """
        self._uid_of = lambda spec: uid_of(spec.namespace, spec.pod) or made_uid(spec)

    def follow(self, topology: Topology | None, *, is_on: bool) -> None:
        """Use another topology: at the start and after a reload."""
        self.version += topology != self._topology
        self._topology, self.is_on = topology, is_on
        self._strategy = topology.mig_strategy if topology is not None else None
        nodes = topology.nodes if topology is not None else ()
        self._uids = {(node.name, name): use.uid for node in nodes for _, name, use in node.workloads() if use.uid}

    def others(self, pool: str) -> Mapping[str, int]:
        """The further resources of each node of a pool, besides its GPUs."""
        return self._topology.others(pool) if self._topology is not None else {}

    def numa_layout(self, pool: str) -> NumaLayout | None:
        """What is known of the NUMA nodes of a pool's nodes; None: they have no object NodeResourceTopology."""
        from fakedev.kubernetes.runai.operator import Topology  # noqa: PLC0415

        return (self._topology or Topology()).layout(pool)

    def cluster(self, pool: str | None = None) -> dict[str, Any]:
        """The topology of the whole.

        :param pool: only this one; None: all.
        """
        from fakedev.kubernetes.runai.operator import Topology, cluster_topology  # noqa: PLC0415

        pools = [candidate for candidate in self._fleet.roster.pools if pool in (None, candidate.name)]
        topology = self._topology or Topology()
        return cluster_topology(pools, topology.label_key, topology.others, self._strategy)

    def node(self, node: RosterNode) -> dict[str, Any]:
        from fakedev.kubernetes.devices.offered_devices import NodeDevices  # noqa: PLC0415
        from fakedev.kubernetes.runai.operator import node_topology  # noqa: PLC0415

        devices = NodeDevices(self._fleet.spec.seed, node.pool, node.spec)
        return node_topology(devices, self.uses(node), self.others(node.pool.name), self._strategy)

    def uses(self, node: RosterNode) -> dict[int, list[GpuUse]]:
        """Who uses each GPU of a node, by its index, in the order of their start."""
        parts = self._fleet.roster.parts
        which = np.zeros(parts.unit_count, np.bool_)
        which[node.first : node.first + node.pool.devices_per_node] = True
        whole = node.pool.device_type.memory_total_bytes
        found: dict[int, list[_Work]] = {}
        for workload, _ in self._fleet.workloads.on_devices(parts.spread(which)):
            spec = workload.spec
            for unit in workload.devices.tolist():
                index = parts.owner(unit) - node.first
                if 0 <= index < node.pool.devices_per_node and spec.pod:
                    part = unit - parts.device_count
                    compute_share = float(parts.compute_share[part]) if part >= 0 else 1.0
                    memory = (float(parts.memory_bytes[part]) if part >= 0 else 0.0) or whole
                    found.setdefault(index, []).append(_Work(spec, compute_share, _memory_mib(spec, memory)))
        return {
            index: [self._use(node, work, self._unstated(node, index, on)) for work in on]
            for index, on in found.items()
        }

    def _unstated(self, node: RosterNode, index: int, on: list[_Work]) -> float:
        """The memory, in MiB, of each workload on a GPU that does not say how much it needs: it follows the load."""
        level = self._fleet.state.levels["device"]
        place = node.first + index
        used = float(level.arrays[_MEMORY][place]) / _MIB if level.has(_MEMORY, place) else 0.0
        stated = [work.memory_mib for work in on if work.memory_mib >= 0]
        return max(used - math.fsum(stated), 0.0) / max(len(on) - len(stated), 1)

    def _use(self, node: RosterNode, work: _Work, unstated_mib: float) -> GpuUse:
        from fakedev.kubernetes.runai.operator import GpuUse  # noqa: PLC0415

        spec = work.spec
        low, high = utilization_of(spec.activities)
        return GpuUse(
            spec.namespace,
            spec.pod,
            spec.container,
            (low * work.compute_share, high * work.compute_share),
            work.memory_mib if work.memory_mib >= 0 else unstated_mib,
            self._uids.get((node.name, spec.name)) or self._uid_of(spec),
        )


def utilization_of(activities: Activities) -> tuple[float, float]:
    """The lowest and the highest load of a profile, in percent."""
    lows, highs = [], []
    for activity in activities:
        low, high = bounds(activity.value)
        lows.append(low - activity.fluctuation)
        highs.append(high + activity.fluctuation)
    return max(0.0, min(lows, default=0.0)), min(100.0, max(highs, default=0.0))


def _memory_mib(spec: WorkloadSpec, total_bytes: float) -> float:
    """The most memory, in MiB, that a workload says it needs of a device or a part; -1 when it does not say.

    :param total_bytes: what that has.
    """
    for use in spec.uses:
        if use.metric == _MEMORY:
            return use.activities.highest * (total_bytes / 100 if use.is_share else 1.0) / _MIB
    return -1.0


#: Why there is nothing, where the addresses are off.
NO_TOPOLOGY = "there is no topology of fake-gpu-operator (--topology FILE), and kubernetes.compatibility does not ask"


class TopologyPage(Resource):
    """The pools."""

    def __init__(self, topology: OperatorTopology, selection: Selection) -> None:
        self._topology = topology
        self._selection = selection

    def get(self, request: Request) -> Response:
        return json_response(self._topology.cluster(self._selection.pool))


class NodeTopologies(Resource):
    """Below it a resource for each node."""

    def __init__(self, topology: OperatorTopology, fleet: Fleet, selection: Selection) -> None:
        self._topology = topology
        self._fleet = fleet
        self._selection = selection

    def getChild(self, name: bytes, request: Request) -> IResource:
        node = self._fleet.roster.node(name.decode("utf-8", "replace"))
        if node is None or not self._selection.has(node):
            return super().getChild(name, request)
        return _NodeTopologyPage(self._topology, node)

    def missing(self, request: Request) -> str:
        name = request.postpath[0].decode("utf-8", "replace") if request.postpath else ""
        if not name:
            shown = self._fleet.roster.shown
            if not shown:
                return "there is no node: the cluster has none with the label"
            return f"nothing is here: name a node, as {paths.NODE_TOPOLOGY.at(NODE=shown[0].name)}"
        return no_node(name, self._fleet.roster, "").text


class _NodeTopologyPage(Resource):
    """A node: its GPUs, and who uses them."""

    def __init__(self, topology: OperatorTopology, node: RosterNode) -> None:
        self._topology = topology
        self._node = node

    def get(self, request: Request) -> Response:
        return json_response(self._topology.node(self._node))
