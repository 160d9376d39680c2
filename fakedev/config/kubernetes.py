"""The section ``kubernetes``: the cluster that gives the fleet its nodes and its work."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

from fakedev.config.configuration import Kubernetes
from fakedev.config.endpoint_keys import LINE_LISTEN, MAX_CONNECTIONS, MESSAGE_TIMEOUT
from fakedev.config.endpoints import Endpoints
from fakedev.config.models import LoadedPool
from fakedev.config.names import node_label
from fakedev.config.schema.nodes import Report
from fakedev.config.schema.schema import Key, Section, Values
from fakedev.config.schema.types import Choice, ListOf, Number, Text
from fakedev.spec.kubernetes import NODE_LABEL, KubernetesSettings, Recovery, Resources, Struck

_PERCENT: Final = re.compile(r"([0-9]{1,3})(?:-([0-9]{1,3}))?")
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
FAKE_GPU_OPERATOR: Final = "fake-gpu-operator"


def percentages(text: str) -> tuple[float, float]:
    """A range of percentages, ``80-100``, or one percentage."""
    found = _PERCENT.fullmatch(text)
    low, high = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
    if not 0 <= low <= high <= 100:
        raise ValueError(f"{text[:60]!r} is no range of percentages: give 80-100, or one number")
    return float(low), float(high)


def object_name(text: str) -> str:
    """The name of a namespace, or of an object of ours."""
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is no name in Kubernetes: at most 63 small letters, digits and -")
    return text


NODE_LISTEN = Section(
    "kubernetes.listen",
    LINE_LISTEN,
    doc="Ports for fakedev-node. An address alone is enough.",
    shorthand="listen",
)

KUBERNETES = Section(
    "kubernetes",
    (
        Key(
            "nodes",
            Section(
                "kubernetes.nodes",
                (
                    Key(
                        "label",
                        Text("name of a label", node_label),
                        "Nodes with this label are simulated; its value is the name of a pool with `nodes: cluster`. "
                        "run.ai/simulated-gpu-node-pool, or the label that a topology names, is taken too.",
                        default=NODE_LABEL,
                    ),
                ),
                doc="The nodes that are simulated.",
            ),
            "The nodes that are simulated.",
        ),
        Key(
            "pods",
            Section(
                "kubernetes.pods",
                (
                    Key(
                        "utilization",
                        Text("range of percentages", percentages),
                        "Of the devices of a running pod that does not say.",
                        default_yaml='"80-100"',
                    ),
                    Key(
                        "struck",
                        Choice.of(Struck),
                        "What becomes of a pod whose device becomes unhealthy: nothing, or it is evicted.",
                        default=Struck.NOTHING,
                        default_words="nothing",
                    ),
                ),
                doc="The pods on simulated nodes.",
            ),
            "The pods on simulated nodes.",
        ),
        Key(
            "resources",
            Choice.of(Resources),
            "How devices are offered: as extended resources (nvidia.com/gpu), by ResourceSlices, or both.",
            default=Resources.DEVICE_PLUGIN,
            default_words="device-plugin",
        ),
        Key(
            "recovery",
            Choice.of(Recovery),
            "When a device is healthy again: auto: with its fault; vendor: when its plugin starts again, too.",
            default=Recovery.AUTO,
            default_words="auto",
        ),
        Key(
            "requests-per-second",
            Number(0.1, 10_000),
            "The most requests to the API server, on average.",
            default=KubernetesSettings.requests_per_second,
        ),
        Key(
            "compatibility",
            Choice(("none", FAKE_GPU_OPERATOR)),
            "fake-gpu-operator: its ConfigMaps, labels and topology server are there too.",
            default="none",
        ),
        Key(
            "kubeconfig",
            Text("path"),
            "The file that names the API server.",
            default_words="the service account of fakedev's own pod",
        ),
        Key("context", Text(), "The context of the kubeconfig.", default_words="its current one"),
        Key(
            "namespace",
            Text("name", object_name),
            "Where fakedev keeps its Lease, and ConfigMaps. Each fleet has one of its own.",
            default_words="that of its own pod, or of the kubeconfig's context",
        ),
        Key(
            "listen",
            ListOf(NODE_LISTEN, words="list of addresses"),
            "Where fakedev-node connects, for nodes with a kubelet.",
            default=(),
        ),
        MAX_CONNECTIONS,
        MESSAGE_TIMEOUT,
    ),
    doc="A Kubernetes cluster, whose nodes and pods are those of the fleet ([kubernetes.md](kubernetes.md)).",
)


def load_kubernetes(
    values: Values | None,
    pools: Sequence[LoadedPool],
    folder: str,
    endpoints: Endpoints,
    operator_label: str,
    report: Report,
) -> Kubernetes | None:
    """The connection with a cluster; problems are reported.

    :param values: None: there is none.
    :param folder: where a relative path of a kubeconfig begins.
    :param operator_label: names the pools of nodes for fake-gpu-operator, in the words of the topology if there is one.
    """
    of_cluster = [pool for pool in pools if pool.spec.has_cluster_nodes]
    if values is None:
        for pool in of_cluster:
            text = "nodes: cluster: there is no cluster: give the section kubernetes: ({} is enough in a pod)"
            report.problem(pool.values.place_of("nodes"), text)
        return None
    if pools and not of_cluster:
        text = "no pool has the nodes of the cluster that kubernetes (or --kubeconfig) names: give one nodes: cluster"
        report.problem(pools[0].values.place, text)
    if values["context"] and not values["kubeconfig"]:
        report.problem(values.place_of("context"), "kubernetes.context: is of a kubeconfig: give kubeconfig: too")
    kubeconfig = os.path.join(folder, values["kubeconfig"]) if values["kubeconfig"] else ""
    utilization = values["pods"]["utilization"]
    return values.build(
        Kubernetes,
        settings=values.build(
            KubernetesSettings,
            node_label=values["nodes"]["label"],
            operator_label=operator_label,
            utilization=utilization,
            struck=values["pods"]["struck"],
            is_compatible=values["compatibility"] == FAKE_GPU_OPERATOR,
            kubeconfig=kubeconfig,
            context=values["context"] or "",
            namespace=values["namespace"] or "",
        ),
        listen=endpoints.queues(values["listen"], "report the devices of pods"),
    )
