"""run-ai's fake-gpu-operator: topologies as values, their ConfigMaps, labels of nodes, MIG mappings.

A topology has node pools, nodes, and who uses their GPUs. Source: the ConfigMaps of fake-gpu-operator 0.0.4 to 0.2.0,
and the design document of its first version. What its users read in a cluster has the names of keys of
fake-gpu-operator 0.2.0.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any, Final

from fakedev.base.groups import grouped
from fakedev.fleet.spec.fleet_spec import PoolSpec
from fakedev.fleet.spec.known_boards import Board
from fakedev.fleet.spec.offers import OPERATOR_NODE_LABEL, MigStrategy
from fakedev.kubernetes.devices.mig_config import MIG_STATE
from fakedev.kubernetes.devices.offered_devices import NodeDevices
from fakedev.kubernetes.devices.resource_slices import MADE_BY

#: Bytes of the unit of ``gpuMemory`` and ``fbUsed``.
MIB: Final = 2**20
#: GPUs of a pool that names a profile and no number: as the operator's own profiles have.
GPUS_OF_PROFILE: Final = 8


@dataclass(frozen=True)
class GpuUse:
    """What a pod does with a GPU.

    :param utilization: percent, the lowest and the highest.
    :param fb_used_mib: memory that it holds.
    :param uid: of the pod; empty: unknown.
    """

    namespace: str = ""
    pod: str = ""
    container: str = ""
    utilization: tuple[float, float] = (0.0, 0.0)
    fb_used_mib: float = 0.0
    uid: str = ""

    @property
    def name(self) -> str:
        """``NAMESPACE/POD/CONTAINER``, without parts that are unknown; else the UID."""
        return "/".join(filter(None, (self.namespace, self.pod, self.container))) or self.uid or "unknown"


@dataclass(frozen=True)
class TopologyGpu:
    """A GPU of a node.

    :param id: its UUID, or another text, without ``GPU-``; empty: none was given.
    """

    id: str = ""
    uses: tuple[GpuUse, ...] = ()
    numa_node: int | None = None


@dataclass(frozen=True)
class NumaLayout:
    """What a pool says of the NUMA nodes of its nodes, besides where its devices are.

    :param zones: how many there are, where some have no device.
    :param policy, scope: of the kubelet's topology manager.
    :param cpu, memory: of each; empty: equal shares of what the node has to give.
    :param self_distance, remote_distance: of a NUMA node to itself, and to each other one.
    """

    zones: int = 0
    policy: str = "single-numa-node"
    scope: str = "container"
    cpu: str = ""
    memory: str = ""
    self_distance: int = 10
    remote_distance: int = 21


@dataclass(frozen=True)
class TopologyPool:
    """A pool of nodes with the same GPUs.

    :param count: GPUs of each node.
    :param numa: the NUMA node of each GPU; empty: unknown.
    :param layout: of NUMA nodes; None: it says nothing of them.
    :param others: further resources of each node, by name, as ``rdma/hca``.
    :param nodes: the names of its nodes where there is no cluster.
    """

    name: str
    board: Board
    count: int
    numa: tuple[int, ...] = ()
    layout: NumaLayout | None = None
    others: Mapping[str, int] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TopologyNode:
    """A single node with its GPUs."""

    name: str
    board: Board
    gpus: tuple[TopologyGpu, ...]
    others: Mapping[str, int] = field(default_factory=dict)

    def workloads(self) -> Iterator[tuple[int, str, GpuUse]]:
        """The index of a GPU, the name of a workload on it, and what that does.

        Pods that a file gives one owner, as those that share a GPU by a reservation, differ by a number.
        """
        numbers: dict[str, dict[str, int]] = {}
        for index, gpu in enumerate(self.gpus):
            for use in gpu.uses:
                own = numbers.setdefault(use.name, {})
                number = own.setdefault(use.uid, len(own))
                yield index, f"{use.name}#{number + 1}" if number else use.name, use


@dataclass(frozen=True)
class Topology:
    """All that a topology says.

    :param label_key: the node label whose value names the pool.
    """

    pools: tuple[TopologyPool, ...] = ()
    nodes: tuple[TopologyNode, ...] = ()
    label_key: str = OPERATOR_NODE_LABEL
    mig_strategy: MigStrategy = MigStrategy.NONE

    def others(self, pool: str) -> Mapping[str, int]:
        """The further resources of each node of a pool; a single node is a pool of its own."""
        return self._others.get(pool, {})

    def layout(self, pool: str) -> NumaLayout | None:
        """What it says of the NUMA nodes of a pool's nodes; None: they have no object NodeResourceTopology."""
        return next((each.layout for each in self.pools if each.name == pool), NumaLayout())

    @cached_property
    def _others(self) -> Mapping[str, Mapping[str, int]]:
        single = {node.name: node.others for node in self.nodes}
        return single | {pool.name: pool.others for pool in self.pools}


def numa_nodes(count: int, zones: int, per_zone: Sequence[int] = ()) -> tuple[int, ...]:
    """The NUMA node of each GPU: blocks in order, the first ones larger by one where they cannot be equal.

    :param per_zone: GPUs of each zone, if they are given.
    :raises ValueError: when these are not as many zones, or not as many GPUs.
    """
    if not zones:
        return ()
    if per_zone and (len(per_zone) != zones or sum(per_zone) != count):
        raise ValueError(f"gpusPerZone must have {zones} numbers with the sum {count}, as zones and GPUs are")
    sizes = per_zone or [count // zones + (zone < count % zones) for zone in range(zones)]
    return tuple(zone for zone, size in enumerate(sizes) for _ in range(size))


#: The key in ConfigMaps, and the usual name of the whole topology's.
DATA_KEY: Final = "topology.yml"
CONFIG_MAP: Final = "topology"
NODE_TOPOLOGY_LABEL: Final = "node-topology"
NODE_NAME_LABEL: Final = "node-name"
MIG_MAPPING: Final = "run.ai/mig-mapping"
#: Names of objects and values of labels end there.
_LONGEST_NAME: Final = 253
_LONGEST_LABEL: Final = 63
_NOBODY: Final = GpuUse()


def node_topology(
    devices: NodeDevices,
    uses: Mapping[int, Sequence[GpuUse]],
    others: Mapping[str, int] | None = None,
    strategy: MigStrategy | None = None,
) -> dict[str, Any]:
    """The topology of a node, as ``/topology/nodes/NODE`` and its ConfigMap have it.

    :param uses: who uses each board, by its index; the first one owns it, as the operator shows one owner.
    :param others: further resources of the node.
    :param strategy: None: that of the node's pool.
    """
    pool = devices.pool
    facts = devices.boards[0] if devices.boards else {}
    described: dict[str, Any] = {
        **_board(pool, facts),
        "driverVersion": facts.get("driver_version", ""),
        "cudaVersion": facts.get("cuda_version", ""),
        "migStrategy": (strategy or pool.in_cluster.mig_strategy).value,
        "otherDevices": _listed(others or {}),
    }
    described = {key: value for key, value in described.items() if value not in ("", [])}
    described["gpus"] = [_gpu(devices, index, uses.get(index, ())) for index in range(len(devices.boards))]
    return described


def cluster_topology(
    pools: Iterable[PoolSpec],
    label_key: str = OPERATOR_NODE_LABEL,
    others: Callable[[str], Mapping[str, int]] = lambda _: {},
    strategy: MigStrategy | None = None,
) -> dict[str, Any]:
    """The topology of the whole, as ``/topology`` has it.

    :param pools: of several with the same name the first one counts.
    :param others: finds the further resources of each node of a pool by its name.
    :param strategy: None: the first one of the pools that is not none.
    """
    by_name: dict[str, PoolSpec] = {}
    for pool in pools:
        by_name.setdefault(pool.name, pool)
    given = (pool.in_cluster.mig_strategy for pool in by_name.values())
    strategy = strategy or next((each for each in given if each is not MigStrategy.NONE), MigStrategy.NONE)
    return {
        "nodePools": {
            name: {
                **_board(pool, {**pool.device_type.facts, **pool.facts}),
                "gpuCount": pool.devices_per_node,
                "otherDevices": _listed(others(name)),
            }
            for name, pool in by_name.items()
        },
        "nodePoolLabelKey": label_key,
        "migStrategy": strategy.value,
    }


def topology_config_map(
    node: str, topology: Mapping[str, Any], namespace: str, node_uid: str = ""
) -> dict[str, Any]:  # fmt: skip
    """The ConfigMap ``topology-NODE``. Its text is JSON, which readers of YAML read too.

    :param topology: of :func:`node_topology`.
    :param node_uid: of the node, which then owns the ConfigMap: it is deleted with it. Empty: nobody owns it.
    """
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": config_map_name(node),
            "namespace": namespace,
            # The last one is not the operator's: `fakedev kube clean` finds it by that.
            "labels": {NODE_TOPOLOGY_LABEL: "true", NODE_NAME_LABEL: _fitting(node, _LONGEST_LABEL), **MADE_BY},
            **({"ownerReferences": [owner]} if node_uid else {}),
        },
        "data": {DATA_KEY: json.dumps(topology, separators=(",", ":"), ensure_ascii=False)},
    }


def config_map_name(node: str) -> str:
    return _fitting(f"{CONFIG_MAP}-{node}", _LONGEST_NAME)


def operator_labels(devices: NodeDevices) -> dict[str, str]:
    """The labels that the operator adds to the labels of GPU feature discovery; none for other vendors."""
    if not devices.is_nvidia or not devices.boards:
        return {}
    labels = {
        "run.ai/fake.gpu": "true",
        "nvidia.com/gpu.deploy.dcgm-exporter": "true",
        "nvidia.com/gpu.deploy.device-plugin": "true",
    }
    if mig_mapping(devices):
        labels[MIG_STATE] = "success"
    return labels


def operator_annotations(devices: NodeDevices) -> dict[str, str]:
    """The annotations that the operator gives a node; none where no board is divided."""
    mapping = mig_mapping(devices)
    if not mapping:
        return {}
    text = json.dumps({str(index): profiles for index, profiles in mapping.items()}, separators=(",", ":"))
    return {MIG_MAPPING: b64encode(text.encode()).decode()}


def mig_mapping(devices: NodeDevices) -> dict[int, list[dict[str, Any]]]:
    """The instances of each divided board, by its index: where they begin, in eighths, their UUIDs and numbers."""
    return {
        index: [
            {
                "position": _first_eighth(int(part["mig_id"])),
                "device_uuid": f"MIG-{part['part_uuid']}",
                "gpu_instance_id": int(part["mig_id"]),
            }
            for part in devices.parts[index]
        ]
        for index in range(len(devices.boards))
        if devices.has_instances(index)
    }


def _board(pool: PoolSpec, facts: Mapping[str, str]) -> dict[str, Any]:
    memory = round(pool.device_type.memory_total_bytes / MIB)
    return {"gpuMemory": memory, "gpuProduct": facts.get("product_name", pool.device_type.name)}


def _listed(others: Mapping[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "count": count} for name, count in sorted(others.items())]


def _gpu(devices: NodeDevices, index: int, uses: Sequence[GpuUse]) -> dict[str, Any]:
    facts = devices.boards[index]
    owner = uses[0] if uses else _NOBODY
    described: dict[str, Any] = {
        "id": f"GPU-{facts['uuid']}" if devices.is_nvidia else facts["uuid"],
        "status": {
            "allocatedBy": {"namespace": owner.namespace, "pod": owner.pod, "container": owner.container},
            "podGpuUsageStatus": _by_uid(uses),
        },
    }
    if facts.get("numa_node", "").isdecimal():
        described["numaNode"] = int(facts["numa_node"])
    return described


def _by_uid(uses: Sequence[GpuUse]) -> dict[str, Any]:
    """One entry for each pod; those of its containers together."""
    by_uid = grouped((use.uid or use.name, use) for use in uses)
    return {
        uid: {
            "utilization": {
                "min": min(100, round(math.fsum(use.utilization[0] for use in own))),
                "max": min(100, round(math.fsum(use.utilization[1] for use in own))),
            },
            "fbUsed": round(math.fsum(use.fb_used_mib for use in own)),
            "useKnativeUtilization": False,
        }
        for uid, own in by_uid.items()
    }


def _first_eighth(mig_id: int) -> int:
    """Where an instance begins, by its number in the tree of halves (see :mod:`fakedev.fleet.parts.mig`)."""
    level = (mig_id + 1).bit_length() - 1
    return (mig_id + 1 - (1 << level)) * 8 >> level


def _fitting(name: str, longest: int) -> str:
    """A name that is not too long: the end of one that is becomes a hash, so that two stay two."""
    if len(name) <= longest:
        return name
    digest = sha256(name.encode()).hexdigest()[:8]
    return f"{name[: longest - 9].rstrip('-._')}-{digest}"
