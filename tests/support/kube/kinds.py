"""The kinds of objects that the API server in memory knows, and their places in its paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """A kind of object.

    :param resource: its name in paths: ``nodes``.
    :param has_status: whether its status is changed by the subresource ``status`` alone.
    """

    group: str
    version: str
    resource: str
    name: str
    is_namespaced: bool
    has_status: bool = False
    short_names: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """As objects have it: ``v1``, ``coordination.k8s.io/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def shown(self) -> str:
        """As messages of the API server name it: ``nodes``, ``leases.coordination.k8s.io``."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


_LEASES = "coordination.k8s.io"
_DRA = "resource.k8s.io"
KINDS = (
    Kind("", "v1", "nodes", "Node", False, True, ("no",)),
    Kind("", "v1", "pods", "Pod", True, True, ("po",)),
    Kind("", "v1", "namespaces", "Namespace", False, True, ("ns",)),
    Kind("", "v1", "configmaps", "ConfigMap", True, short_names=("cm",)),
    Kind("", "v1", "secrets", "Secret", True),
    Kind("", "v1", "services", "Service", True, True, ("svc",)),
    Kind("", "v1", "serviceaccounts", "ServiceAccount", True, short_names=("sa",)),
    Kind("", "v1", "events", "Event", True, short_names=("ev",)),
    Kind("apps", "v1", "deployments", "Deployment", True, True, ("deploy",)),
    Kind("apps", "v1", "daemonsets", "DaemonSet", True, True, ("ds",)),
    Kind("apps", "v1", "statefulsets", "StatefulSet", True, True, ("sts",)),
    Kind("batch", "v1", "jobs", "Job", True, True),
    Kind(_LEASES, "v1", "leases", "Lease", True),
    Kind(_DRA, "v1", "resourceslices", "ResourceSlice", False),
    Kind(_DRA, "v1", "deviceclasses", "DeviceClass", False),
    Kind(_DRA, "v1", "resourceclaims", "ResourceClaim", True, True),
    Kind(_DRA, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True),
    Kind("rbac.authorization.k8s.io", "v1", "roles", "Role", True),
    Kind("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True),
    Kind("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False),
    Kind("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False),
)
_BY_RESOURCE = {kind.resource: kind for kind in KINDS}
_BY_PATH = {(kind.group, kind.version, kind.resource): kind for kind in KINDS}
_BY_OBJECT = {(kind.api_version, kind.name): kind for kind in KINDS}


@dataclass(frozen=True)
class Address:
    """What a path names: ``/api/v1/namespaces/default/pods/a/status``."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        """As rules of roles name it: ``pods/status``."""
        return f"{self.kind.resource}/{self.subresource}" if self.subresource else self.kind.resource


def kind_of_resource(resource: str) -> Kind:
    """The kind with this name in paths."""
    return _BY_RESOURCE[resource]


def kind_of_item(item: dict[str, Any]) -> Kind:
    """The kind of an object, by its apiVersion and kind."""
    return _BY_OBJECT[item["apiVersion"], item["kind"]]


def parse_path(path: str) -> Address | None:
    """What a path of the API names; None when there is no such resource."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == ["api"] and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[:1] == ["apis"] and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and (group, version, rest[2]) in _BY_PATH:
        namespace, rest = rest[1], rest[2:]
    kind = _BY_PATH.get((group, version, rest[0]))
    if kind is None or len(rest) > 3 or (namespace and not kind.is_namespaced):
        return None
    name, subresource = ([*rest[1:], "", ""])[:2]
    if name and kind.is_namespaced and not namespace:
        return None
    return Address(kind, namespace, name, subresource)
