"""What fakedev asks of the API server: each verb and resource, why, and when.

The Roles of ``etc/kubernetes`` allow exactly this (``tests/manifests/test_permissions.py``). A request that is refused
in spite of them is told with the rule that it needs (``paths.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


class Need(Enum):
    """When a permission is needed."""

    ALWAYS = "always"
    DRA = "dra"  # with resources: dra or both
    COMPATIBILITY = "compatibility"  # with compatibility: fake-gpu-operator


@dataclass(frozen=True)
class Permission:
    """A rule of a Role.

    :param group: of the API; empty: the core group.
    :param resource: with its subresource, as ``nodes/status``.
    :param reason: what fakedev does with it, as a clause.
    :param is_namespaced: only in fakedev's own namespace (Role); else in the whole cluster (ClusterRole).
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    reason: str
    need: Need = Need.ALWAYS
    is_namespaced: bool = False


PERMISSIONS: Final = (
    Permission("", "nodes", ("list", "watch", "patch"), "follows the nodes, writes taints, removes what it wrote"),
    Permission("", "nodes/status", ("patch",), "writes capacity, allocatable, conditions and labels"),
    Permission("", "pods", ("list", "watch"), "follows which pod has which devices"),
    Permission("", "pods/eviction", ("create",), "evicts the pods of a failed device, with struck: evict"),
    Permission("", "events", ("create",), "tells faults at nodes, and annotations that cannot be read at pods"),
    Permission(
        "coordination.k8s.io", "leases", ("get", "list", "create", "update"),
        "holds a Lease for each shard; lists those of a fleet with another number of shards", is_namespaced=True,
    ),
    Permission(
        "resource.k8s.io", "resourceslices", ("get", "list", "watch", "create", "update", "delete"),
        "publishes the devices of each simulated node", Need.DRA,
    ),
    Permission("resource.k8s.io", "resourceclaims", ("list", "watch"), "follows which pod has which devices", Need.DRA),
    Permission(
        "", "configmaps", ("create", "patch", "delete"),
        "keeps topology-NODE for each node", Need.COMPATIBILITY, is_namespaced=True,
    ),
)  # fmt: skip
