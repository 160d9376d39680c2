"""Paths of the API: made from names, and read for statistics and for rules of roles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from fakedev.net.kube.permissions import PERMISSIONS

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
    """The path of a node."""
    return Target("", "v1", "nodes", "", name, subresource).path


def pod_path(namespace: str, name: str, subresource: str = "") -> str:
    """The path of a pod."""
    return Target("", "v1", "pods", namespace, name, subresource).path


def events_path(namespace: str) -> str:
    """The path at which events are created."""
    return Target("", "v1", "events", namespace).path
