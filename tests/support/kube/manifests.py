"""The manifests of etc/kubernetes as objects: read from files, and rendered by kubectl and helm."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from kubernetes_validate import ValidationError, validate

from tests.support.paths import ROOT

MANIFESTS: Final = ROOT / "etc" / "kubernetes"
CHART: Final = MANIFESTS / "chart"
OVERLAYS: Final = sorted(path.parent.name for path in MANIFESTS.glob("overlays/*/kustomization.yaml"))
#: Kinds of other programs (Prometheus Operator, kustomize, kind): no schema of Kubernetes has them.
FOREIGN_GROUPS: Final = (
    "faults.fakedev", "monitoring.coreos.com", "kustomize.config.k8s.io", "kind.x-k8s.io", "resource.nvidia.com",
)  # fmt: skip
#: The version of Kubernetes whose schemas the manifests must fit.
KUBERNETES: Final = "1.37"

Object = dict[str, Any]


def program(name: str) -> str | None:
    """The path of kubectl or helm: that of the package beside this Python, else that of the system."""
    return shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)


def printed_by(name: str, *arguments: str) -> str:
    """What kubectl or helm prints.

    :raises ValueError: with its words, when it fails.
    """
    path = program(name)
    assert path is not None, f"{name} is not installed"
    done = subprocess.run(
        [path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode != 0:
        raise ValueError(f"{name} {' '.join(arguments)}: {done.stderr or done.stdout}")
    return done.stdout


def objects_of(text: str) -> list[Object]:
    """The objects of a manifest, in order."""
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each is not None]


def rendered(folder: str) -> str:
    """What ``kubectl kustomize`` makes of a folder of etc/kubernetes."""
    return printed_by("kubectl", "kustomize", str(MANIFESTS / folder))


def by_name(objects: list[Object]) -> dict[tuple[str, str, str], Object]:
    """Objects by kind, namespace and name, each of which may be there once."""
    found: dict[tuple[str, str, str], Object] = {}
    for each in objects:
        metadata = each["metadata"]
        key = (each["kind"], metadata.get("namespace", ""), metadata["name"])
        assert key not in found, f"{key} is there twice"
        found[key] = each
    return found


def texts_of(text: str) -> list[str]:
    """The documents of a manifest as texts, with the comments above each."""
    return [part.strip("\n") + "\n" for part in re.split(r"^---\n", text, flags=re.MULTILINE) if part.strip()]


def of_kind(objects: list[Object], kind: str) -> list[Object]:
    """The objects of a kind."""
    return [each for each in objects if each["kind"] == kind]


def pod_spec(item: Mapping[str, Any]) -> Object:
    """The specification of the pods of a Deployment, DaemonSet, StatefulSet or Job, or of a pod."""
    spec: Object = item["spec"] if item["kind"] == "Pod" else item["spec"]["template"]["spec"]
    return spec


def manifest_files() -> Iterator[Path]:
    """All YAML files of etc/kubernetes but the templates of the chart."""
    yield from (path for path in sorted(MANIFESTS.rglob("*.yaml")) if CHART not in path.parents)




def problems_of(item: Object) -> list[str]:
    """What the API server of ``KUBERNETES`` would not accept of an object; nothing for kinds of other programs."""
    if item["apiVersion"].partition("/")[0] in FOREIGN_GROUPS:
        return []
    try:
        validate(item, KUBERNETES, strict=True)
    except ValidationError as error:
        where = ".".join(map(str, error.path))
        return [f"{item['kind']} {item['metadata'].get('name')}: {where}: {error.message}"]
    return []


def yaml_text(value: Any) -> str:
    """A value as YAML."""
    return yaml.safe_dump(value, sort_keys=False)


def printed_by_script(*command: str | Path) -> str:
    """What a script of etc/kubernetes prints; it must succeed."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True).stdout
