"""The values of the chart: those that all charts have, and those of fake-gpu-operator."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.support.kube.manifests import CHART, Object, by_name, objects_of, of_kind, pod_spec, printed_by, problems_of

pytestmark = pytest.mark.real

_IMAGE: Final = {"pullPolicy": "Always", "repository": "registry/part", "tag": ""}
_RESOURCES: Final = {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {"cpu": "200m", "memory": "200Mi"}}
_PART: Final = {"enabled": True, "image": _IMAGE, "resources": _RESOURCES}
#: All values of fake-gpu-operator's chart (values.yaml of July 2026), each with a value as it has there.
OPERATOR: Final[dict[str, Any]] = {
    "environment": {"openshift": False, "fakeCSVVersion": "25.10.0", "resourceReservationNamespace": "runai"},
    "prometheus": {"url": "http://prometheus-operated.runai:9090"},
    "devicePlugin": _PART,
    "statusUpdater": {
        **_PART, "disableNodeLabeling": False, "podPatchRbac": {"enabled": True},
        "runaiIntegration": {"enabled": False, "pollingInterval": "2m"},
        "nodeResourceTopology": {"enabled": False, "installCRD": True},  # of its README
    },
    "topologyServer": _PART,
    "statusExporter": {
        **_PART, "nodeResourceTopology": {"enabled": False, "installCRD": True}, "podResources": {"enabled": False},
        "topologyMaxExportInterval": "10s", "kwok": {"prometheusRule": {"enabled": True}, "resources": _RESOURCES},
    },
    "kwokGpuDevicePlugin": _PART,
    "kwokDraPlugin": {**_PART, "enabled": False},
    "migFaker": {"enabled": True, "image": _IMAGE},
    "nvmlMock": {"image": _IMAGE},
    "gpuOperator": {"enabled": False},
    "nvidiaDraDriver": {"enabled": False},
    "runtimeClass": {"enabled": True},
    "topologyConfigMap": {"enabled": True},
    "draPlugin": {
        "enabled": False, "image": _IMAGE, "imagePullSecrets": [],
        "serviceAccount": {"create": True, "name": "", "annotations": {}},
        "kubeletPlugin": {
            "priorityClassName": "system-node-critical", "updateStrategy": {"type": "RollingUpdate"},
            "podAnnotations": {}, "podSecurityContext": {}, "tolerations": [], "affinity": {},
            "nodeSelector": {"nvidia.com/gpu.deploy.dra-plugin-gpu": "true"},
            "kubeletRegistrarDirectoryPath": "/var/lib/kubelet/plugins_registry",
            "kubeletPluginsDirectoryPath": "/var/lib/kubelet/plugins",
            "containers": {
                "plugin": {
                    "securityContext": {"privileged": True}, "resources": _RESOURCES, "healthcheckPort": 51515,
                    "livenessProbe": {"service": "liveness", "periodSeconds": 10},
                }
            },
        },
    },
    "ubuntu": {"image": {"repository": "ubuntu", "tag": "24.04"}},
    "topology": {
        "nodePools": {"default": {"gpuProduct": "Tesla-K80", "gpuCount": 2, "gpuMemory": 11441}},
        "nodePoolLabelKey": "run.ai/simulated-gpu-node-pool",
        "migStrategy": "mixed",
    },
    "builtinProfiles": {"enabled": True},
    "customProfiles": {},
    "computeDomainController": {"image": _IMAGE, "resources": _RESOURCES},
    "computeDomainDraPlugin": {**_PART, "enabled": False, "healthcheckPort": 8082},
    "kwokComputeDomainDraPlugin": {**_PART, "enabled": False},
    "gpu-operator": {"driver": {"enabled": False}},
    "nvidia-dra-driver-gpu": {"nvidiaDriverRoot": "/var/lib/nvml-mock/driver"},
    # Read by its templates alone.
    "selectorLabelsOverride": {"app": "x"},
}  # fmt: skip
#: Those that change something here; tests below show how.
EFFECTIVE: Final = {
    "environment.openshift", "devicePlugin.enabled", "devicePlugin.resources", "topologyServer.enabled",
    "statusExporter.enabled", "statusExporter.nodeResourceTopology", "kwokDraPlugin.enabled", "runtimeClass.enabled",
    "topologyConfigMap.enabled",
    "draPlugin.enabled", "draPlugin.imagePullSecrets", "draPlugin.kubeletPlugin.kubeletRegistrarDirectoryPath",
    "draPlugin.kubeletPlugin.kubeletPluginsDirectoryPath", *(f"topology.{key}" for key in OPERATOR["topology"]),
}  # fmt: skip


def chart(values: Any, folder: Path, source: Path = CHART) -> list[Object]:
    """The objects of a chart with some values, all of which have the form of their kinds."""
    file = folder / "values.json"
    file.write_text(json.dumps(values), encoding="utf-8")
    command = ("helm", "template", "fakedev", str(source), "--namespace", "fakedev", "--values", str(file))
    objects = objects_of(printed_by(*command))
    assert [problem for each in objects for problem in problems_of(each)] == []
    return objects


def unused(values: Any, folder: Path) -> list[str]:
    """What the notes of an installation list as without effect; `helm template` prints no notes."""
    copy = folder / "chart"
    shutil.copytree(CHART, copy)
    text = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: notes}\n'
    text += 'data: {text: {{ include "fakedev.unused" . | quote }}}\n'
    (copy / "templates" / "notes.yaml").write_text(text, encoding="utf-8")
    notes = by_name(chart(values, folder, copy))["ConfigMap", "", "notes"]["data"]["text"]
    return [line.strip().partition(":")[0] for line in notes.splitlines() if line.strip()]


def test_the_values_of_fake_gpu_operator(tmp_path: Path) -> None:
    """Each has its effect, or the notes name it."""
    objects = by_name(chart(OPERATOR, tmp_path))
    topology = objects["ConfigMap", "fakedev", "topology"]["data"]["topology.yml"]
    assert yaml.safe_load(topology) == OPERATOR["topology"]
    assert objects["RuntimeClass", "", "nvidia"]["handler"] == "runc"
    exporter = objects["Service", "fakedev", "nvidia-dcgm-exporter"]
    assert exporter["metadata"]["annotations"] == {"prometheus.io/scrape": "true"}
    assert exporter["spec"]["ports"][0]["port"] == 9400
    assert objects["Service", "fakedev", "topology-server"]["spec"]["ports"][0]["port"] == 80
    node = pod_spec(objects["DaemonSet", "fakedev", "fakedev-node"])
    assert node["containers"][0]["resources"] == _RESOURCES
    noted = unused(OPERATOR, tmp_path)
    given = {f"{name}.{key}" for name, value in OPERATOR.items() for key in value} - {"draPlugin.kubeletPlugin"}
    given |= {f"draPlugin.kubeletPlugin.{key}" for key in OPERATOR["draPlugin"]["kubeletPlugin"]}
    assert {name for name in given if name not in noted and name.partition(".")[0] not in noted} == EFFECTIVE


@pytest.mark.parametrize("part", ["statusExporter", "statusUpdater"])
def test_node_topologies(part: str, tmp_path: Path) -> None:
    """In either place, with the definition or without."""
    definition = "CustomResourceDefinition", "", "noderesourcetopologies.topology.node.k8s.io"
    role = "ClusterRole", "", "fakedev-node-topologies"
    for has_definition in (True, False):
        value = {"enabled": True, "installCRD": has_definition}
        objects = by_name(chart({part: {"nodeResourceTopology": value}}, tmp_path))
        assert (definition in objects, role in objects) == (has_definition, True)
    (container,) = pod_spec(objects["Deployment", "fakedev", "fakedev"])["containers"]
    assert {"name": "FAKEDEV__KUBERNETES__NODE_TOPOLOGIES", "value": "true"} in container["env"]
    assert role not in by_name(chart({}, tmp_path))


def test_values_without_effect_are_named_only_where_they_are_given(tmp_path: Path) -> None:
    """The chart's defaults give none; an empty value is none."""
    assert unused({}, tmp_path) == []
    shutil.rmtree(tmp_path / "chart")
    names = {"nameOverride": "a", "fullnameOverride": "b", "namespaceOverride": "c"}
    assert unused({"customProfiles": {"mine": {}}, "gpuOperator": {"enabled": True}, **names}, tmp_path) == [
        "customProfiles", "fullnameOverride", "gpuOperator", "nameOverride", "namespaceOverride",
    ]  # fmt: skip


def test_parts_of_fake_gpu_operator_that_are_off(tmp_path: Path) -> None:
    """Their objects are missing; the ConfigMap of somebody else is mounted."""
    off = {name: {"enabled": False} for name in ("devicePlugin", "topologyServer", "topologyConfigMap", "runtimeClass")}
    objects = by_name(chart({"topology": OPERATOR["topology"], **off}, tmp_path))
    assert not {("DaemonSet", "fakedev", "fakedev-node"), ("Service", "fakedev", "topology-server"),
                ("ConfigMap", "fakedev", "topology"), ("RuntimeClass", "", "nvidia")} & set(objects)  # fmt: skip
    volumes = pod_spec(objects["Deployment", "fakedev", "fakedev"])["volumes"]
    assert {"name": "topology", "configMap": {"name": "topology"}} in volumes


def test_pools_with_profiles(tmp_path: Path) -> None:
    """``cluster`` takes the place of ``topology``, and its label selects the nodes of fakedev-node."""
    cluster = {"nodePoolLabelKey": "pool", "nodePools": {"big": {"gpu": {"backend": "mock", "profile": "h100"}}}}
    objects = by_name(chart({"topology": OPERATOR["topology"], "cluster": cluster}, tmp_path))
    assert yaml.safe_load(objects["ConfigMap", "fakedev", "topology"]["data"]["topology.yml"]) == cluster
    affinity = pod_spec(objects["DaemonSet", "fakedev", "fakedev-node"])["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchExpressions"][0]["key"] for term in terms] == ["fakedev/pool", "pool"]


def test_what_all_charts_have(tmp_path: Path) -> None:
    """Where pods run and under which names, for the service and for fakedev-node."""
    placed: dict[str, Any] = {
        "nodeSelector": {"pool": "infra"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
        "priorityClassName": "high",
    }
    named = {"podAnnotations": {"team": "a"}, "podLabels": {"cost": "b"}}
    values = {
        **placed, **named, "devicePlugin": {**placed, **named}, "imagePullSecrets": [{"name": "registry"}],
        "podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": 7},
        "env": [{"name": "FAKEDEV__FLEET__SEED", "value": "2"}],
        "volumes": [{"name": "more", "emptyDir": {}}], "volumeMounts": [{"name": "more", "mountPath": "/more"}],
        "serviceAccount": {"annotations": {"role": "c"}}, "service": {"type": "NodePort", "annotations": {"d": "e"}},
    }  # fmt: skip
    objects = by_name(chart(values, tmp_path))
    for kind, name in (("Deployment", "fakedev"), ("DaemonSet", "fakedev-node")):
        template = objects[kind, "fakedev", name]["spec"]["template"]
        assert placed.items() <= template["spec"].items()
        assert template["metadata"]["annotations"] == {"team": "a"}
        assert template["metadata"]["labels"]["cost"] == "b"
        assert template["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    spec = pod_spec(objects["Deployment", "fakedev", "fakedev"])
    assert spec["securityContext"] == {
        "runAsNonRoot": True, "fsGroup": 7, "seccompProfile": {"type": "RuntimeDefault"},
    }  # fmt: skip
    assert values["env"][0] in spec["containers"][0]["env"]
    assert {"name": "more", "mountPath": "/more"} in spec["containers"][0]["volumeMounts"]
    assert {"name": "more", "emptyDir": {}} in spec["volumes"]
    assert objects["ServiceAccount", "fakedev", "fakedev"]["metadata"]["annotations"] == {"role": "c"}
    assert objects["Service", "fakedev", "fakedev"]["spec"]["type"] == "NodePort"


def test_the_prometheus_operator(tmp_path: Path) -> None:
    """Rules for labels reach both kinds of objects."""
    rules = [{"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}]
    dropped = [{"regex": "DCGM_FI_DRIVER_VERSION", "action": "labeldrop"}]
    given = {"enabled": True, "labels": {"release": "x"}, "relabelings": rules, "metricRelabelings": dropped}
    objects = by_name(chart({"scrapeConfig": given, "serviceMonitor": {**given, "scrapeTimeout": "5s"}}, tmp_path))
    monitor = objects["ServiceMonitor", "fakedev", "fakedev"]
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["relabelings"], endpoint["metricRelabelings"], endpoint["scrapeTimeout"]) == (rules, dropped, "5s")
    scraped = objects["ScrapeConfig", "fakedev", "fakedev"]
    assert (scraped["spec"]["relabelings"], scraped["spec"]["metricRelabelings"]) == (rules, dropped)
    assert scraped["metadata"]["labels"] == {"release": "x"}


def test_openshift(tmp_path: Path) -> None:
    """The service has the ids of its namespace, and fakedev-node an account that may be privileged."""
    objects = by_name(chart({"environment": {"openshift": True}}, tmp_path))
    service, node = (pod_spec(objects[kind, "fakedev", name]) for kind, name in
                     (("Deployment", "fakedev"), ("DaemonSet", "fakedev-node")))  # fmt: skip
    assert set(service["securityContext"]) == {"runAsNonRoot", "seccompProfile"}
    assert node["serviceAccountName"] == "fakedev-node"
    (rule,) = objects["Role", "fakedev", "fakedev-node"]["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == (["privileged"], ["use"])


def test_an_upgrade_to_shards_keeps_the_address(tmp_path: Path) -> None:
    """Kubernetes refuses another clusterIP: the Service is the same, and the names of pods have one of their own."""
    one = by_name(chart({"devicePlugin": {"enabled": False}}, tmp_path))
    more = {"shards": 4, "scrapeConfig": {"enabled": True}}
    four = by_name(chart({"devicePlugin": {"enabled": False}, **more}, tmp_path))
    service = ("Service", "fakedev", "fakedev")
    assert one[service] == four[service]
    headless = four["Service", "fakedev", "fakedev-shards"]["spec"]
    assert headless["clusterIP"] == "None"
    assert four["StatefulSet", "fakedev", "fakedev"]["spec"]["serviceName"] == "fakedev-shards"
    urls = [each["url"] for each in four["ScrapeConfig", "fakedev", "fakedev"]["spec"]["httpSDConfigs"]]
    assert urls[3] == "http://fakedev-3.fakedev-shards.fakedev.svc:9400/sd"


def test_the_test_of_the_chart(tmp_path: Path) -> None:
    """`helm test` asks the Service, with a program of the image."""
    (pod,) = of_kind(chart({"nodeSelector": {"pool": "infra"}}, tmp_path), "Pod")
    assert pod["spec"]["nodeSelector"] == {"pool": "infra"}
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    (container,) = pod["spec"]["containers"]
    assert (container["command"][0], container["command"][-1]) == ("curl", "http://fakedev.fakedev:9400/readyz")
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_unknown_values_are_refused_at_every_level(tmp_path: Path) -> None:
    """All at once, each with its place."""
    paths = (
        "nodeSelectr", "image.digest", "service.port", "devicePlugin.podAnotations", "devicePlugin.resources.limit",
        "draPlugin.kubeletPlugin.containers.plugins", "statusExporter.kwok.rules", "podSecurityContext.runAsUsr",
        "serviceMonitor.relabeling", "configuration.flet", "configuration.kubernetes.node",
        "configuration.fleet.pols", "configuration.log.formt", "affinity.nodeAffinty",
    )  # fmt: skip
    values: dict[str, Any] = {}
    for path in paths:
        level = values
        for name in path.split("."):
            level = level.setdefault(name, {})
    with pytest.raises(ValueError, match="schema") as refused:
        chart(values, tmp_path)
    for path in paths:
        place, _, name = path.rpartition(".")
        assert re.search(rf"{place.rpartition('.')[2]}\b.*\b{name}\b", str(refused.value)), path
