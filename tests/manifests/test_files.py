"""The manifests as they are written: their form, who may do what in the pods, and that the parts fit together."""

from __future__ import annotations

import configparser
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

from fakedev import __version__
from fakedev.config.sample_page import sample_page
from fakedev.fleet.spec.offers import KubernetesSettings
from fakedev.kubernetes.pods import read_pod
from fakedev.kubernetes.workloads.work import work_of
from tests.support.configurations import loaded
from tests.support.configurations import pool as pool_text
from tests.support.documents.manifests import VALUES_SCHEMA, written_schema
from tests.support.kube.manifests import (
    CHART,
    MANIFESTS,
    Object,
    manifest_files,
    objects_of,
    of_kind,
    pod_spec,
    problems_of,
)
from tests.support.paths import DOCUMENTS, ROOT

ALL = [each for path in manifest_files() for each in objects_of(path.read_text(encoding="utf-8")) if "metadata" in each]
SERVICE = [MANIFESTS / "base" / "deployment.yaml", MANIFESTS / "components" / "shards" / "statefulset.yaml"]


def test_all_values_are_in_the_schema_and_in_the_file() -> None:
    """A value that the schema knows and the file lacks is documented nowhere; the configuration has all of its keys."""
    schema = json.loads(VALUES_SCHEMA.read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert set(schema["properties"]) - {"global"} == set(values)
    assert VALUES_SCHEMA.read_text(encoding="utf-8") == written_schema()


def test_the_version_of_the_chart() -> None:
    """It is ours."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def only(*parts: str) -> Object:
    """The one object of a file."""
    (found,) = objects_of(MANIFESTS.joinpath(*parts).read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("path", list(manifest_files()), ids=lambda path: str(path.relative_to(MANIFESTS)))
def test_each_file_has_the_form_of_its_kinds(path: Path) -> None:
    """By Kubernetes' own schemas, without keys that the API server would drop; no key twice, no blanks at ends."""
    settings = YamlLintConfig(
        "rules: {key-duplicates: enable, trailing-spaces: enable, new-line-at-end-of-file: enable, "
        "line-length: {max: 160}, truthy: enable, indentation: {spaces: consistent}}"
    )
    text = path.read_text(encoding="utf-8")
    assert [str(problem) for problem in linter.run(text, settings)] == []
    objects = objects_of(text)
    assert objects
    if path.name not in ("prometheus-adapter-values.yaml", "kwok-job-delay.yaml", "kwok-node-down.yaml"):  # no objects
        assert [problem for each in objects for problem in problems_of(each)] == []


def test_a_mistake_is_found() -> None:
    """A key that does not exist, and a value of another type."""
    item = only("base", "deployment.yaml")
    item["spec"]["replica"] = 1
    assert "replica" in problems_of(item)[0]
    item = only("base", "service.yaml")
    item["spec"]["ports"][0]["port"] = "metrics"
    assert "spec.ports.0.port" in problems_of(item)[0]


@pytest.mark.parametrize("path", SERVICE, ids=lambda path: path.stem)
def test_the_service_is_restricted(path: Path) -> None:
    """All that the level "restricted" of pod security asks for, and a root file system that it cannot write."""
    (item,) = objects_of(path.read_text(encoding="utf-8"))
    spec = pod_spec(item)
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] == 9400
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    assert {kind for volume in spec["volumes"] for kind in volume} == {"name", "configMap", "emptyDir"}
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "metrics"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert container["resources"]["limits"]["memory"]


def test_shards_are_the_deployment_several_times() -> None:
    """The pods of both are alike, but for the command and the memory."""
    templates = []
    for path in SERVICE:
        (item,) = objects_of(path.read_text(encoding="utf-8"))
        template = item["spec"]["template"]
        (container,) = template["spec"]["containers"]
        container["resources"] = {}
        command = container.pop("command")
        if item["kind"] == "StatefulSet":
            assert command[-2:] == ["--shard", f"hostname/{item['spec']['replicas']}"]
            command = command[:-2]
            assert item["spec"]["serviceName"] == only("components", "shards", "service.yaml")["metadata"]["name"]
        templates.append((command, template))
    assert templates[0] == templates[1]


def test_only_fakedev_node_is_root_and_sees_folders_of_the_kubelet() -> None:
    """Two of them, with DRA two more; what containers get is in others.

    No other pod of the manifests mounts the host's files, or is root.
    """
    for item in ALL:
        if item["kind"] not in ("Deployment", "StatefulSet", "DaemonSet", "Job", "Pod"):
            continue
        spec = pod_spec(item)
        paths = [volume["hostPath"]["path"] for volume in spec.get("volumes", ()) if "hostPath" in volume]
        is_node = item["metadata"]["name"] == "fakedev-node"
        assert (spec.get("securityContext", {}).get("runAsUser") == 0) is is_node, item["metadata"]
        assert bool(paths) is is_node
        if is_node:
            assert paths == [
                "/var/lib/kubelet/device-plugins", "/var/lib/kubelet/pod-resources", "/run/fakedev-nvml",
            ]  # fmt: skip
    (patch,) = [
        yaml.safe_load(each["patch"])
        for each in only("components", "dra", "kustomization.yaml")["patches"]
        if each["target"]["kind"] == "DaemonSet"
    ]
    assert [volume["hostPath"]["path"] for volume in pod_spec(patch)["volumes"]] == [
        "/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/plugins/gpu.nvidia.com", "/var/run/cdi",
    ]  # fmt: skip


def test_fakedev_node_has_no_account_and_no_capability() -> None:
    """It is root only to open the kubelet's sockets; its token is in a file that root reads."""
    spec = pod_spec(only("components", "kubelets", "node-plugin.yaml"))
    assert spec["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in spec
    (container,) = spec["containers"]
    assert container["securityContext"] == {
        "privileged": False, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    (secret,) = [volume["secret"] for volume in spec["volumes"] if "secret" in volume]
    assert secret["defaultMode"] == 0o400


def allows(expression: dict[str, Any], labels: dict[str, str]) -> bool:
    """Whether a node with labels fits one expression of an affinity."""
    key, operator = expression["key"], expression["operator"]
    if operator == "Exists":
        return key in labels
    assert operator == "NotIn"
    return labels.get(key) not in expression["values"]


@pytest.mark.parametrize(
    ("labels", "is_chosen"),
    [
        ({"fakedev/pool": "dgx"}, True),
        ({"run.ai/simulated-gpu-node-pool": "default"}, True),
        ({"fakedev/pool": "dgx", "type": "kwok"}, False),
        ({"run.ai/simulated-gpu-node-pool": "default", "type": "kwok"}, False),
        ({}, False),
        ({"nvidia.com/gpu.present": "true"}, False),
    ],
)
def test_fakedev_node_runs_where_a_pool_is_and_kwok_is_not(labels: dict[str, str], is_chosen: bool) -> None:
    """Real GPU nodes and KWOK nodes have no pod of it."""
    affinity = pod_spec(only("components", "kubelets", "node-plugin.yaml"))["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    chosen = any(all(allows(each, labels) for each in term["matchExpressions"]) for term in terms)
    assert chosen is is_chosen


def test_kwok_nodes_are_made_by_the_script() -> None:
    """The nodes of the overlay are what it prints; they have the labels and the taint that keep other pods away."""
    script = MANIFESTS / "kwok-nodes.sh"
    printed = subprocess.run([script, "3", "dgx"], capture_output=True, text=True, check=True).stdout
    assert (MANIFESTS / "overlays/kwok/nodes.yaml").read_text(encoding="utf-8").split("\n", 1)[1] == printed
    many = objects_of(subprocess.run([script, "12", "mig", "n"], capture_output=True, text=True, check=True).stdout)
    assert [each["metadata"]["name"] for each in many] == [f"n-{number}" for number in range(12)]
    assert {each["metadata"]["labels"]["fakedev/pool"] for each in many} == {"mig"}
    assert problems_of(many[11]) == []
    assert many[0]["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    tolerated = [each["key"] for each in pod_spec(only("components", "kubelets", "node-plugin.yaml"))["tolerations"]]
    assert many[0]["spec"]["taints"][0]["key"] not in tolerated
    wrong = subprocess.run([script, "many"], capture_output=True, text=True, check=False)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "kwok-nodes.sh COUNT" in wrong.stderr


def test_services_and_policies_name_ports_and_pods_that_exist() -> None:
    """A selector that selects nothing would be silent; the node port is open to fakedev-node alone."""
    parts = [each for each in ALL if each["metadata"].get("namespace") == "fakedev"]
    templates = [part["spec"]["template"]["metadata"]["labels"] for part in parts if "template" in part.get("spec", {})]
    for item in parts:
        spec = item.get("spec", {})
        wanted = spec.get("selector") if item["kind"] == "Service" else spec.get("podSelector", {}).get("matchLabels")
        if item["kind"] in ("Service", "NetworkPolicy"):
            assert wanted and any(wanted.items() <= labels.items() for labels in templates), item["metadata"]
    policies = {each["metadata"]["name"]: each["spec"] for each in of_kind(parts, "NetworkPolicy")}
    (nodes,) = [rule for rule in policies["fakedev"]["ingress"] if rule["ports"] == [{"port": "nodes"}]]
    node_labels = only("components", "kubelets", "node-plugin.yaml")["spec"]["template"]["metadata"]["labels"]
    assert nodes["from"] == [{"podSelector": {"matchLabels": node_labels}}]
    assert "ingress" not in policies["fakedev-node"]


def test_no_manifest_has_a_token() -> None:
    """A token that is published is none: the user makes the Secret, or the chart does."""
    assert of_kind(ALL, "Secret") == []


def installed() -> set[str]:
    """The names of the console programs."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return {line.partition("=")[0].strip() for line in parser["options.entry_points"]["console_scripts"].split("\n")}


def test_the_pods_start_programs_that_the_image_has() -> None:
    """Each command of the manifests is a console program, or one of the system."""
    specs = [pod_spec(each) for each in ALL if each["kind"] in ("Deployment", "DaemonSet", "StatefulSet", "Job", "Pod")]
    containers = [each for spec in specs for each in (*spec.get("initContainers", ()), *spec["containers"])]
    assert {container["image"] for container in containers} == {"fakedev"}
    assert {container["imagePullPolicy"] for container in containers} == {"IfNotPresent"}
    assert {container["command"][0] for container in containers} - installed() == {"sleep"}


def test_what_the_examples_say_of_their_load_is_understood() -> None:
    """The annotations and labels of their pods have no problem."""
    pool = loaded(pool_text(nodes="1", device="h100", devices_per_node="8")).fleet.pools[0]
    templates = [each["spec"]["template"] for each in ALL if each["kind"] in ("Deployment", "Job")]
    templates += [each for each in ALL if each["kind"] == "Pod"]
    said = [template for template in templates if template["metadata"].get("annotations")]
    assert len(said) >= 4
    for each in said:
        pod = read_pod({**each, "metadata": {**each["metadata"], "name": "example", "uid": "1"}})
        assert work_of(pod, KubernetesSettings(), pool).problems == ()


def test_the_autoscalers_ask_for_series_that_fakedev_has() -> None:
    """The rules of the adapter name series of a page, and each metric of an autoscaler has a rule."""
    rules = only("examples", "prometheus-adapter-values.yaml")["rules"]
    page = sample_page("dcgm@4.8.2", "h100")[1]
    queues = (DOCUMENTS / "work-queue.md").read_text(encoding="utf-8")
    for rule in rules["custom"]:
        assert f"\n{rule['seriesQuery'].partition('{')[0]}{{" in page
    for rule in rules["external"]:
        assert f"`{rule['seriesQuery'].partition('{')[0]}{{name}}`" in queues
    offered = {rule["name"]["as"] for kind in ("custom", "external") for rule in rules[kind]}
    for scaler in of_kind(ALL, "HorizontalPodAutoscaler"):
        for metric in scaler["spec"]["metrics"]:
            assert metric[metric["type"].lower()]["metric"]["name"] in offered
