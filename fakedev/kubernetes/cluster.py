"""A cluster: its simulated nodes, their pods, and what follows for the fleet and the API; and the plan of that.

Objects of the API and the health of devices come in; the nodes of the fleet, workloads, patches and Events go out.
What has changed is kept until it is taken, so that a burst of changes costs one answer.

The plan is what fakedev would do with the nodes and pods of a cluster, without the cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from fakedev.fleet.events import Where
from fakedev.fleet.spec.fleet_spec import FleetSpec
from fakedev.fleet.spec.offers import KubernetesSettings
from fakedev.fleet.spec.workload_fields import fields_of_workload
from fakedev.kubernetes.devices.health import NodeHealth
from fakedev.kubernetes.devices.offered_devices import NodeDevices
from fakedev.kubernetes.nodes.node_status import NodePatches, Report, of_node, reports_of_health
from fakedev.kubernetes.nodes.node_table import NodeTable
from fakedev.kubernetes.nodes.simulated_node import ClusterNode
from fakedev.kubernetes.pods import Pod, read_pod
from fakedev.kubernetes.workloads.pod_record import PodRecord
from fakedev.kubernetes.workloads.pod_records import PodTable

#: Nodes that are compared at once with what is wanted: 0.2 ms each.
_MAX_COMPARED: Final = 25
#: Reports that wait to be taken; beyond this number the oldest are dropped.
_MAX_REPORTS: Final = 10_000


class Cluster:
    """The nodes with the label, and the pods on them.

    :param spec: of the fleet.
    :param has: whether this process simulates a node; other shards simulate the others.
    :param others: finds the further resources of each node of a pool, by the pool's name.
    :ivar nodes: the simulated nodes.
    :ivar pods: the pods that want devices.
    """

    def __init__(
        self,
        settings: KubernetesSettings,
        spec: FleetSpec,
        has: Callable[[str], bool] = lambda _: True,
        others: Callable[[str], Mapping[str, int]] = lambda _: {},
    ) -> None:
        self.nodes = NodeTable(settings, spec, has, others)
        self.pods = PodTable(settings, self.nodes, self._report_pod)
        self._reports: deque[Report] = deque(maxlen=_MAX_REPORTS)

    def list_nodes(self, items: Iterable[Mapping[str, Any]]) -> Iterator[None]:
        """These are all nodes of the cluster; one node in each step: a new one takes long."""
        found = {item["metadata"]["name"]: item for item in items}
        for name in [name for name in self.nodes.names() if name not in found]:
            self.node_deleted(name)
        for item in found.values():
            self.node_changed(item, is_listed=True)
            yield

    def node_changed(self, item: Mapping[str, Any], *, is_listed: bool = False) -> None:
        """A node is new, or has changed.

        :param is_listed: it is as the server has it now; else it is left out when a later state is known.
        """
        if self.nodes.put(item, is_listed=is_listed):
            self.pods.node_left(item["metadata"]["name"])
        self._report_problems()

    def node_deleted(self, name: str) -> None:
        self.pods.forget_reports(name)
        if self.nodes.remove(name):
            self.pods.node_left(name)

    def use(self, spec: FleetSpec) -> None:
        """The fleet has another configuration."""
        for name in self.nodes.use(spec):
            self.pods.node_left(name)
        self._report_problems()

    def health_changed(self, name: str, health: NodeHealth, *, is_reported: bool = False) -> None:
        """The health of a node's devices, as the cluster sees it, has changed.

        :param is_reported: an earlier service has reported it.
        """
        node = self.nodes.get(name)
        if node is None or node.health == health:
            return
        before, node.health = node.health, health
        self.nodes.changed[name] = self.nodes.viewed[name] = self.nodes.sliced[name] = None
        if not is_reported:
            self._reports.extend(reports_of_health(node.name, node.uid, before, health))
        self.pods.health_changed(node, before)

    def node_uid(self, name: str) -> str:
        """The UID of a simulated node; empty when it is not known."""
        node = self.nodes.get(name)
        return node.uid if node is not None else ""

    def devices(self, name: str) -> NodeDevices | None:
        node = self.nodes.get(name)
        return None if node is None else node.devices

    # -- what follows -----------------------------------------------------------------------------

    def take_joined(self, most: int | None = None) -> list[str]:
        """Up to ``most`` new or changed nodes; their pods are placed first."""
        taken = list(islice(self.nodes.renewed, most))
        for name in taken:
            del self.nodes.renewed[name]
            self.pods.node_joined(name)
            node = self.nodes.get(name)
            if node is not None and node.problem:
                reason = "InvalidMigStrategy" if node.devices.mig_problem else "UnknownResource"
                self._report_node(node, reason, node.problem)
        return taken

    def take_patches(self, most: int) -> list[tuple[str, NodePatches]]:
        """The patches of at most ``most`` nodes of the API.

        At most :data:`_MAX_COMPARED` nodes that have changed are compared; :attr:`has_more_nodes` says whether others
        wait.
        """
        found = self.nodes.take_left(most)
        for name in list(islice(self.nodes.changed, _MAX_COMPARED)):
            if len(found) >= most:
                break
            del self.nodes.changed[name]
            node = self.nodes.get(name)
            patches = node.patches() if node is not None else None
            if node is not None and patches is not None:
                for text in patches.conflicts:
                    self._report_node(node, "NotWritten", text)
                if patches:
                    found.append((name, patches))
        return found

    @property
    def has_more_nodes(self) -> bool:
        """Whether nodes wait to be compared by :meth:`take_patches`."""
        return bool(self.nodes.changed or self.nodes.left)

    def again(self, name: str) -> None:
        """Compare a node with what is wanted once more."""
        if self.nodes.get(name) is not None:
            self.nodes.changed[name] = None

    def take_reports(self) -> list[Report]:
        return _taken(self._reports)

    def take_views(self) -> list[str]:
        """The nodes whose view has changed, for their fakedev-node."""
        return _taken(self.nodes.viewed)

    def take_slices(self, most: int) -> list[tuple[str, list[dict[str, Any]] | None]]:
        """Some nodes whose ResourceSlices may have changed, each with those that are wanted; None: they stay."""
        names = list(islice(self.nodes.sliced, most))
        for name in names:
            del self.nodes.sliced[name]
        found = [(name, self.nodes.get(name)) for name in names]
        return [(name, node.slices() if node is not None else []) for name, node in found]

    @property
    def is_changed(self) -> bool:
        """Whether there may be something to be taken."""
        nodes, pods = self.nodes, self.pods
        of_nodes = nodes.changed, nodes.left, nodes.viewed, nodes.sliced, nodes.renewed
        return any((pods.changed, pods.evictions, pods.has_records, self._reports, *of_nodes))

    def divide_boards(self, is_there: Callable[[str, Where], bool]) -> Iterator[None]:
        """Go on with nodes whose boards must be divided, one in each step; for after a tick.

        :param is_there: whether the fleet has a node in a pool, with boards divided like this.
        """
        if not self.pods.is_waiting:
            yield from self.nodes.divide(is_there)
            self._report_problems()

    def _report_problems(self) -> None:
        for node, text in self.nodes.take_mig_problems():
            self._report_node(node, "MigConfigFailed", text)
        for name, uid, text in self.nodes.take_new_problems():
            self._reports.append(of_node(name, uid, "NotSimulated", text))

    def _report_node(self, node: ClusterNode, reason: str, message: str) -> None:
        if node.reported.add_new(reason, message):
            self._reports.append(Report("Node", node.name, "", node.uid, reason, message, is_once=True))

    def _report_pod(self, record: PodRecord, reason: str, message: str) -> None:
        if record.reported.add_new(reason, message):
            pod = record.pod
            self._reports.append(Report("Pod", pod.name, pod.namespace, pod.uid, reason, message, is_once=True))


def _taken(waiting: Any) -> list[Any]:
    """All that waits; it waits no more."""
    taken = list(waiting)
    waiting.clear()
    return taken


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
    for _ in (*cluster.list_nodes(nodes), *cluster.pods.list_pods(map(_pod, pods))):
        pass
    cluster.take_joined()
    found = list(cluster.nodes)
    patches: dict[str, NodePatches] = {}
    while cluster.has_more_nodes:
        patches.update(cluster.take_patches(len(found)))
    work = {each.key: each.spec for each in cluster.pods.take_work(lambda *_: True, 10**9) if each.spec is not None}
    return {
        "nodes": [
            {
                "node": node.name,
                "pool": node.pool.name,
                "kubelet": node.has_kubelet,
                "devices": [{"resource": slot.resource, "id": slot.id} for slot in node.devices.slots],
                "patches": _patches(node.name, patches.get(node.name)),
                "waits": node.patches().is_waiting,
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
                    for container, slots in node.ledger.slots_of(pod.uid).items()
                },
                "workloads": [
                    fields_of_workload(each) for key, each in work.items() if key[:2] == (pod.namespace, pod.name)
                ],
            }
            for pod, node in cluster.pods.on_nodes()
        ],
        "events": [
            {"kind": each.kind, "namespace": each.namespace, "name": each.name, "reason": each.reason,
             "message": each.message} for each in cluster.take_reports()
        ],
        "problems": dict(cluster.nodes.problems),
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
        if node["waits"]:
            yield "  waits until KWOK has given it processors and memory"
        elif not node["patches"]:
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
        for key, child in value.items():
            yield from _leaves(child, f"{path}.{key}" if path else str(key))
    else:
        yield f"{path}: {'removed' if value is None else value}"
