"""What users of run-ai's fake-gpu-operator read in a cluster: topologies and their ConfigMaps, labels, MIG mappings.

The names of keys are those of fake-gpu-operator 0.2.0.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from fakedev.kube.devices import NodeDevices
from fakedev.kube.dra_slices import MADE_BY
from fakedev.kube.topology import MIB, GpuUse
from fakedev.spec.fleet import PoolSpec
from fakedev.spec.kubernetes import OPERATOR_NODE_LABEL, MigStrategy

#: The key in ConfigMaps, and the usual name of the whole topology's.
DATA_KEY: Final = "topology.yml"
CONFIG_MAP: Final = "topology"
NODE_TOPOLOGY_LABEL: Final = "node-topology"
NODE_NAME_LABEL: Final = "node-name"
MIG_MAPPING: Final = "run.ai/mig-mapping"
MIG_STATE: Final = "nvidia.com/mig.config.state"
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
    """The name of a node's ConfigMap."""
    return _fitting(f"{CONFIG_MAP}-{node}", _LONGEST_NAME)


def operator_labels(devices: NodeDevices) -> dict[str, str]:
    """The labels that the operator gives a node beside those of GPU feature discovery; none for other vendors'."""
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
    text = json.dumps({str(index): each for index, each in mapping.items()}, separators=(",", ":"))
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
    by_uid: dict[str, list[GpuUse]] = {}
    for use in uses:
        by_uid.setdefault(use.uid or use.name, []).append(use)
    return {
        uid: {
            "utilization": {
                "min": min(100, round(sum(use.utilization[0] for use in own))),
                "max": min(100, round(sum(use.utilization[1] for use in own))),
            },
            "fbUsed": round(sum(use.fb_used_mib for use in own)),
            "useKnativeUtilization": False,
        }
        for uid, own in by_uid.items()
    }


def _first_eighth(mig_id: int) -> int:
    """Where an instance begins, by its number in the tree of halves (see :mod:`fakedev.sim.parts.mig`)."""
    level = (mig_id + 1).bit_length() - 1
    return (mig_id + 1 - (1 << level)) * 8 >> level


def _fitting(name: str, longest: int) -> str:
    """A name that is not too long: the end of one that is becomes a hash, so that two stay two."""
    if len(name) <= longest:
        return name
    digest = sha256(name.encode()).hexdigest()[:8]
    return f"{name[: longest - 9].rstrip('-._')}-{digest}"
