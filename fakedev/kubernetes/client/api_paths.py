"""Paths of the API, and the permissions (RBAC rules) that fakedev needs: each verb and resource, why, and when.

Paths are made from names, and read for statistics and for rules of roles. The Roles of ``etc/kubernetes`` allow
exactly these permissions (``tests/manifests/test_permissions.py``). The error of a request that is refused in spite
of them names the rule that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final
from urllib.parse import quote, unquote


class Need(Enum):
    """When a permission is needed."""

    ALWAYS = "always"
    DRA = "dra"  # with resources: dra or both
    COMPATIBILITY = "compatibility"  # with compatibility: fake-gpu-operator
    DOMAINS = "compute-domains"  # with compute-domains: true
    FAULTS = "device-faults"  # with device-faults: true
    TOPOLOGIES = "node-topologies"  # with node-topologies: true


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
    Permission("", "pods/status", ("patch",), "records the devices of pods on nodes without a kubelet"),
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
    Permission(
        "resource.nvidia.com", "computedomains", ("list", "watch"), "follows objects ComputeDomain", Need.DOMAINS,
    ),
    Permission(
        "resource.nvidia.com", "computedomains/status", ("patch",), "writes the nodes of a ComputeDomain", Need.DOMAINS,
    ),
    Permission(
        "resource.k8s.io", "resourceclaimtemplates", ("create",), "makes the template of a ComputeDomain's claims",
        Need.DOMAINS,
    ),
    Permission("faults.fakedev", "devicefaults", ("list", "watch"), "follows faults that are objects", Need.FAULTS),
    Permission("faults.fakedev", "devicefaults/status", ("patch",), "writes where a fault is seen", Need.FAULTS),
    Permission(
        "topology.node.k8s.io", "noderesourcetopologies", ("create", "patch", "delete"),
        "writes what the NUMA nodes of each node have", Need.TOPOLOGIES,
    ),
)  # fmt: skip


_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True)
class Target:
    """What a path names.

    :param group: of the API; empty: the core.
    :param resource: its name in paths: ``nodes``.
    :param subresource: ``status``, ``eviction``; empty: the object itself.
    """

    group: str
    version: str
    resource: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def path(self) -> str:
        """The path, with each name quoted."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespace:
            parts += ["namespaces", self.namespace]
        parts += [part for part in (self.resource, self.name, self.subresource) if part]
        return "/" + "/".join(quote(part, safe="") for part in parts)

    @property
    def shown(self) -> str:
        """The resource as rules of roles name it: ``nodes/status``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def parse_path(path: str) -> Target:
    """What a path of the API names; a path of another kind is a resource of its own."""
    parts = [unquote(part) for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Target("", "", path)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    name, subresource = ([*rest[1:], "", ""])[:2]
    return Target(group, version, rest[0], namespace, name, subresource)


def verb_of(method: str, target: Target, *, is_watch: bool = False) -> str:
    """What a request does, as rules of roles name it: get, list, watch, create, update, patch, delete."""
    if method == "GET" and not target.name:
        return "watch" if is_watch else "list"
    return _VERBS.get(method, method.lower())


def role_rule(verb: str, target: Target) -> str:
    """What a role lacks, as the line that adds it: ``add to the ClusterRole: - {apiGroups: [""], ...}``."""
    is_wide = any(
        (each.group, each.resource, each.is_namespaced) == (target.group, target.shown, False) for each in PERMISSIONS
    )
    role = f"Role in namespace {target.namespace}" if target.namespace and not is_wide else "ClusterRole"
    rule = f'- {{apiGroups: ["{target.group}"], resources: ["{target.shown}"], verbs: ["{verb}"]}}'
    named = f' "{target.name}"' if target.name else ""
    return f"the API server forbids to {verb} {target.shown}{named}: add to the {role}: {rule}"


def node_path(name: str, subresource: str = "") -> str:
    return Target("", "v1", "nodes", "", name, subresource).path


def pod_path(namespace: str, name: str, subresource: str = "") -> str:
    return Target("", "v1", "pods", namespace, name, subresource).path


def events_path(namespace: str) -> str:
    return Target("", "v1", "events", namespace).path


def slice_path(name: str = "") -> str:
    """The path of a ResourceSlice; of all without a name."""
    return Target("resource.k8s.io", "v1", "resourceslices", "", name).path
