"""The discovery pages of the API server in memory: as far as kubectl needs them."""

from __future__ import annotations

from typing import Any

from tests.support.kube.kinds import KINDS, Kind

_VERSION = {
    "major": "1", "minor": "36", "gitVersion": "v1.36.2", "gitCommit": "", "gitTreeState": "clean", "buildDate": "",
    "goVersion": "", "compiler": "gc", "platform": "linux/amd64",
}  # fmt: skip
_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def discovery_page(path: str) -> dict[str, Any] | None:
    """The page of a path; None when it is none of discovery."""
    parts = [part for part in path.split("/") if part]
    groups = sorted({(kind.group, kind.version) for kind in KINDS if kind.group})
    match parts:
        case ["version"]:
            return _VERSION
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(*each) for each in groups]}
        case ["api", "v1"]:
            return _resources("", "v1")
        case ["apis", group, version] if (group, version) in groups:
            return _resources(group, version)
        case ["openapi", "v3"]:
            return {"paths": {}}
    return None


def _group(group: str, version: str) -> dict[str, Any]:
    versions = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [versions], "preferredVersion": versions}


def _resources(group: str, version: str) -> dict[str, Any]:
    held = []
    for kind in KINDS:
        if (kind.group, kind.version) == (group, version):
            held.append(_resource(kind, kind.resource, _VERBS))
            if kind.has_status:
                held.append(_resource(kind, f"{kind.resource}/status", ["get", "patch", "update"]))
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": held}


def _resource(kind: Kind, name: str, verbs: list[str]) -> dict[str, Any]:
    return {
        "name": name, "singularName": kind.name.lower(), "namespaced": kind.is_namespaced, "kind": kind.name,
        "verbs": verbs, "shortNames": list(kind.short_names),
    }  # fmt: skip
