"""What fakedev would do with the nodes and pods of a cluster, without the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from fakedev.kube.cluster import Cluster
from fakedev.kube.node_status import NodePatches
from fakedev.kube.pods import Pod, read_pod
from fakedev.spec.fleet import FleetSpec
from fakedev.spec.kubernetes import KubernetesSettings
from fakedev.spec.workload_fields import fields_of_workload


def plan(
    settings: KubernetesSettings,
    spec: FleetSpec,
    nodes: Iterable[Mapping[str, Any]],
    pods: Iterable[Mapping[str, Any]],
) -> dict[str, Any]:
    """The patches of nodes, the devices and workloads of pods, the Events, as plain values.

    :param spec: of the fleet, with the pools that the labels of the nodes name.
    :param nodes, pods: objects of the API.
    """
    cluster = Cluster(settings, spec, lambda name: spec.shard is None or spec.shard.has(name))
    cluster.nodes_listed(nodes)
    cluster.pods_listed(map(_pod, pods))
    cluster.take_joined()
    found = list(cluster.nodes())
    patches: dict[str, NodePatches] = {}
    while cluster.has_more_nodes:
        patches.update(cluster.take_patches(len(found)))
    work = {each.key: each.spec for each in cluster.take_work(lambda *_: True, 10**9) if each.spec is not None}
    return {
        "nodes": [
            {
                "node": node.name,
                "pool": node.pool.name,
                "kubelet": node.has_kubelet,
                "devices": [{"resource": slot.resource, "id": slot.id} for slot in node.devices.slots],
                "patches": _patches(node.name, patches.get(node.name)),
            }
            for node in found
        ],
        "pods": [
            {
                "namespace": pod.namespace,
                "pod": pod.name,
                "node": node.name,
                "containers": {
                    container: [slot.id for slot in slots]
                    for container, slots in node.allocation.slots_of(pod.uid).items()
                },
                "workloads": [
                    fields_of_workload(each) for key, each in work.items() if key[:2] == (pod.namespace, pod.name)
                ],
            }
            for pod, node in cluster.pods()
        ],
        "events": [
            {"kind": each.kind, "namespace": each.namespace, "name": each.name, "reason": each.reason,
             "message": each.message} for each in cluster.take_reports()
        ],
        "problems": dict(cluster.problems),
    }  # fmt: skip


def _pod(item: Mapping[str, Any]) -> Pod:
    """A pod of a file; one that was not in a cluster yet has no UID."""
    pod = read_pod(item)
    return pod if pod.uid else replace(pod, uid=f"{pod.namespace}/{pod.name}")


def _patches(name: str, patches: NodePatches | None) -> dict[str, Any]:
    """The patches of a node, each by what it is sent to."""
    found = {f"nodes/{name}": patches.spec, f"nodes/{name}/status": patches.status} if patches is not None else {}
    return {what: patch for what, patch in found.items() if patch is not None}


def plan_lines(planned: Mapping[str, Any]) -> Iterator[str]:
    """A plan for people, a fact a line."""
    for node in planned["nodes"]:
        kubelet = "its kubelet lists the devices" if node["kubelet"] else "no kubelet: fakedev lists the devices"
        yield f"node {node['node']}: pool {node['pool']}, {len(node['devices'])} devices, {kubelet}"
        for what, patch in node["patches"].items():
            yield f"  patch {what}"
            yield from (f"    {line}" for line in _leaves(patch, ""))
        if not node["patches"]:
            yield "  nothing to patch"
    for pod in planned["pods"]:
        yield f"pod {pod['namespace']}/{pod['pod']} on {pod['node']}"
        for container, ids in pod["containers"].items():
            yield f"  container {container}: {', '.join(ids)}"
        for workload in pod["workloads"]:
            yield f"  runs on {','.join(workload['devices'])}: profile {workload['profile']}"
        if not pod["containers"]:
            yield "  no devices"
    for event in planned["events"]:
        of_pod = f"{event['namespace']}/" if event["namespace"] else ""
        yield f"Event at {event['kind'].lower()} {of_pod}{event['name']}: {event['reason']}: {event['message']}"
    for name, text in planned["problems"].items():
        yield f"node {name} is not simulated: {text}"


def _leaves(value: object, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _leaves(each, f"{path}.{key}" if path else str(key))
    else:
        yield f"{path}: {'removed' if value is None else value}"
