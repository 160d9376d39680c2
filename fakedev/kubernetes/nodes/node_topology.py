"""The object ``NodeResourceTopology`` of a node: what each of its NUMA nodes has, for schedulers that heed them.

Sources: the API ``topology.node.k8s.io/v1alpha2`` (k8stopologyawareschedwg/noderesourcetopology-api, types.go); run-ai
fake-gpu-operator 0.2.0, docs/fake-nrt.md, for the keys of a pool, their defaults, and processors and memory in equal
shares; the kernel's distances of NUMA nodes (ACPI, SLIT: 10 is the node itself).
"""

from __future__ import annotations

import re
from typing import Any, Final

from fakedev.kubernetes.client.api_paths import Target
from fakedev.kubernetes.devices.dra import quantity
from fakedev.kubernetes.devices.node_ledger import Mechanism
from fakedev.kubernetes.devices.resource_slices import MADE_BY
from fakedev.kubernetes.devices.sharing import quantity_bytes
from fakedev.kubernetes.nodes.simulated_node import ClusterNode
from fakedev.kubernetes.runai.operator import NumaLayout

GROUP: Final = "topology.node.k8s.io"
VERSION: Final = "v1alpha2"
TOPOLOGIES_PATH: Final = Target(GROUP, VERSION, "noderesourcetopologies").path
_CPU: Final = re.compile("([0-9]{1,9})(m?)")
_POLICIES: Final = {
    "single-numa-node": "SingleNUMANode", "restricted": "Restricted", "best-effort": "BestEffort",
}  # fmt: skip
_LEVELS: Final = {"container": "ContainerLevel", "pod": "PodLevel"}


def topology_state(node: ClusterNode) -> tuple[object, ...]:
    """What the object of a node depends on: equal ones make equal objects of the same node."""
    return node.devices, node.ledger.version, node.health, node.is_paused, _cpu_and_memory(node)


def node_topology(node: ClusterNode, layout: NumaLayout) -> dict[str, Any] | None:
    """The object of a node, which is deleted with the node; None where the place of no device is known."""
    slots = [(slot, zone) for slot in node.devices.slots if (zone := slot.numa_node) is not None]
    if not slots:
        return None
    zones = range(max(layout.zones, 1 + max(zone for _, zone in slots)))
    # Capacity, allocatable and available of each resource at each NUMA node; 0 where it has none.
    found = {(resource, zone): [0, 0, 0] for resource in {slot.resource: 0 for slot, _ in slots} for zone in zones}
    for slot, zone in slots:
        counts, is_well = found[slot.resource, zone], node.is_well(slot)
        counts[0] += 1
        counts[1] += is_well
        counts[2] += is_well and node.ledger.holder_of(slot, Mechanism.DEVICE_PLUGIN) is None
    cpu, memory = _cpu_and_memory(node)
    shares = {
        "cpu": layout.cpu or _cpu_share(cpu, len(zones)),
        "memory": layout.memory or _memory_share(memory, len(zones)),
    }
    static = [_amounts(resource, share, share, share) for resource, share in shares.items() if share]
    policy = _POLICIES.get(layout.policy, "")
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": node.name,
            "labels": dict(MADE_BY),
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}],
        },
        "attributes": [
            {"name": "topologyManagerPolicy", "value": layout.policy},
            {"name": "topologyManagerScope", "value": layout.scope},
        ],
        # Older schedulers read this instead of the attributes.
        "topologyPolicies": [policy + _LEVELS[layout.scope] if policy else "None"],
        "zones": [
            {
                "name": f"node-{zone}",
                "type": "Node",
                "costs": [
                    {"name": f"node-{other}",
                     "value": layout.self_distance if other == zone else layout.remote_distance}
                    for other in zones
                ],
                "resources": [
                    *(_amounts(resource, *map(str, each)) for (resource, at), each in found.items() if at == zone),
                    *static,
                ],
            }
            for zone in zones
        ],
    }  # fmt: skip


def _cpu_and_memory(node: ClusterNode) -> tuple[str, str]:
    """What its pods may have of them, as the API says; empty: unknown."""
    allocatable = node.item["status"].get("allocatable") or {}
    return allocatable.get("cpu", ""), allocatable.get("memory", "")


def _amounts(name: str, capacity: str, allocatable: str, available: str) -> dict[str, str]:
    return {"name": name, "capacity": capacity, "allocatable": allocatable, "available": available}


def _cpu_share(text: str, zones: int) -> str:
    """A share of processors, in thousandths where it is no whole number; empty for what is no quantity."""
    match = _CPU.fullmatch(text)
    if match is None:
        return ""
    share = int(match[1]) * (1 if match[2] else 1000) // zones
    return f"{share}m" if share % 1000 else f"{share // 1000}"


def _memory_share(text: str, zones: int) -> str:
    share = quantity_bytes(text) // zones
    return quantity(share) if share else ""
