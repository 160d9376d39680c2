"""What fakedev asks of the API server: each verb and resource, why, and when.

The Roles of ``etc/kubernetes`` allow exactly this (``tests/manifests/test_permissions.py``). What is said of a refused
request names the rule that a Role lacks.
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

    @property
    def rule(self) -> str:
        """The rule as a line of a Role in YAML."""
        group = self.group or '""'
        return f"{{apiGroups: [{group}], resources: [{self.resource}], verbs: [{', '.join(self.verbs)}]}}"


PERMISSIONS: Final = (
    Permission("", "nodes", ("list", "watch", "patch"), "follows the nodes, writes taints, removes what it wrote"),
    Permission("", "nodes/status", ("patch",), "writes capacity, allocatable, conditions and labels"),
    Permission("", "pods", ("list", "watch"), "follows which pod has which devices"),
    Permission("", "pods/eviction", ("create",), "evicts the pods of a failed device, with struck: evict"),
    Permission("", "events", ("create", "patch"), "tells faults at nodes, and annotations that cannot be read at pods"),
    Permission(
        "coordination.k8s.io", "leases", ("get", "create", "update"), "holds a Lease for each shard", is_namespaced=True
    ),
    Permission(
        "resource.k8s.io", "resourceslices", ("list", "watch", "create", "update", "delete"),
        "publishes the devices of each simulated node", Need.DRA,
    ),
    Permission("resource.k8s.io", "resourceclaims", ("list", "watch"), "follows which pod has which devices", Need.DRA),
    Permission(
        "", "configmaps", ("list", "watch", "create", "patch", "delete"),
        "follows the ConfigMap topology, keeps topology-NODE for each node", Need.COMPATIBILITY, is_namespaced=True,
    ),
)  # fmt: skip


def permission_for(group: str, resource: str, verb: str) -> Permission | None:
    """The rule that allows a request; None: fakedev does not expect to make it."""
    of_resource = (each for each in PERMISSIONS if (each.group, each.resource) == (group, resource))
    return next((each for each in of_resource if verb in each.verbs), None)
