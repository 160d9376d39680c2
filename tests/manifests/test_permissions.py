"""The Roles allow what the code asks for: nothing more, nothing less, and each rule says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakedev.kubernetes.client.api_paths import PERMISSIONS, Need
from tests.support.kube.manifests import MANIFESTS, objects_of, of_kind
from tests.support.kube.permissions import not_allowed
from tests.support.paths import DOCUMENTS

FILES = {
    Need.ALWAYS: MANIFESTS / "base" / "rbac.yaml",
    Need.DRA: MANIFESTS / "components" / "dra" / "rbac.yaml",
    Need.DOMAINS: MANIFESTS / "components" / "compute-domains" / "rbac.yaml",
    Need.TOPOLOGIES: MANIFESTS / "components" / "node-topologies" / "rbac.yaml",
    Need.FAULTS: MANIFESTS / "components" / "device-faults" / "rbac.yaml",
    Need.COMPATIBILITY: MANIFESTS / "components" / "fake-gpu-operator" / "rbac.yaml",
}
Allowed = set[tuple[bool, str, str, str]]


def allowed_by(path: Path) -> Allowed:
    """What the Roles of a file allow: in the own namespace only?, group, resource, verb."""
    found: Allowed = set()
    objects = objects_of(path.read_text(encoding="utf-8"))
    for role in of_kind(objects, "Role") + of_kind(objects, "ClusterRole"):
        for rule in role["rules"]:
            assert set(rule) == {"apiGroups", "resources", "verbs"}
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    new = {(role["kind"] == "Role", group, resource, verb) for verb in rule["verbs"]}
                    assert not new & found, "allowed twice"
                    found |= new
    return found


@pytest.mark.parametrize("need", Need)
def test_the_roles_allow_what_is_asked_for(need: Need) -> None:
    """Exactly that: a missing rule is a 403, a further one a risk."""
    asked = {
        (permission.is_namespaced, permission.group, permission.resource, verb)
        for permission in PERMISSIONS
        if permission.need is need
        for verb in permission.verbs
    }
    assert allowed_by(FILES[need]) == asked
    assert "*" not in {word for allowed in asked for word in allowed if isinstance(word, str)}


@pytest.mark.parametrize("need", Need)
def test_the_account_gets_the_roles(need: Need) -> None:
    """Each Role is bound to the account of the service, once, and to nobody else."""
    objects = objects_of(FILES[need].read_text(encoding="utf-8"))
    roles = {(each["kind"], each["metadata"]["name"]) for each in objects if each["kind"] in ("Role", "ClusterRole")}
    bindings = [each for each in objects if each["kind"].endswith("Binding")]
    assert {(binding["roleRef"]["kind"], binding["roleRef"]["name"]) for binding in bindings} == roles
    for binding in bindings:
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "fakedev", "namespace": "fakedev"}]


@pytest.mark.parametrize("path", FILES.values(), ids=lambda path: path.parent.name)
def test_each_rule_is_explained(path: Path) -> None:
    """By the comment above it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("  - {apiGroups:")]
    assert rules
    for number in rules:
        assert lines[number - 1].startswith("  # "), lines[number]


def test_each_rule_is_in_the_document() -> None:
    """With its verbs, in the table of doc/kubernetes.md."""
    text = (DOCUMENTS / "kubernetes.md").read_text(encoding="utf-8")
    for permission in PERMISSIONS:
        assert f"| `{permission.resource}` | {', '.join(permission.verbs)} |" in text, permission


def test_a_request_that_no_rule_allows_is_found() -> None:
    """What the tests of the service ask of the requests that the API server of the tests has counted."""
    made = [("patch", "nodes/status", 200), ("get", "secrets", 200), ("delete", "resourceslices", 200)]
    assert not_allowed(made, Need.ALWAYS) == ["delete resourceslices", "get secrets"]
    assert not_allowed(made, Need.ALWAYS, Need.DRA) == ["get secrets"]
