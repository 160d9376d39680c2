"""A cluster as fakedev knows it: its simulated nodes and their pods, and what follows for the fleet and for the API.

Objects of the API and the health of devices come in; the nodes of the fleet, workloads, patches and Events go out. What
has changed is kept until it is taken, so that a burst of changes costs one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from fakedev.kube.cluster_node import ClusterNode
from fakedev.kube.devices import NodeDevices
from fakedev.kube.dra_claims import Claim
from fakedev.kube.health import NodeHealth
from fakedev.kube.node_status import NodePatches
from fakedev.kube.node_table import NodeTable
from fakedev.kube.node_view import Allocation, NodeView, PreparedDevice
from fakedev.kube.pod_devices import PodDevices
from fakedev.kube.pod_record import PodKey, PodRecord, WorkKey
from fakedev.kube.pods import Pod
from fakedev.kube.reports import Report, ReportQueue, of_node, reports_of_health
from fakedev.kube.work_changes import ChangedPods, WorkChange
from fakedev.spec.fleet import FleetSpec
from fakedev.spec.kubernetes import KubernetesSettings, Struck

#: Nodes that are compared at once with what is wanted: 0.2 ms each.
_MAX_COMPARED: Final = 25


class Cluster:
    """The nodes with the label, and the pods on them.

    :param spec: of the fleet.
    :param has: whether a node is simulated by this process: others are those of other shards.
    :param others: finds the further resources of each node of a pool, by the pool's name.
    """

    def __init__(
        self,
        settings: KubernetesSettings,
        spec: FleetSpec,
        has: Callable[[str], bool] = lambda _: True,
        others: Callable[[str], Mapping[str, int]] = lambda _: {},
    ) -> None:
        self._settings = settings
        self._nodes = NodeTable(settings, spec, has, others)
        self._devices = PodDevices(settings, self._nodes, self._report_pod)
        self._pods: dict[PodKey, PodRecord] = {}
        #: The pods bound to each node, also to nodes that are not simulated (yet), in order of arrival.
        self._bound: dict[str, dict[PodKey, None]] = {}
        self._changed_pods = ChangedPods(self._pods, self._nodes)
        self._reports = ReportQueue()
        self._evictions: dict[PodKey, None] = {}

    # -- nodes ------------------------------------------------------------------------------------

    def nodes_listed(self, items: Iterable[Mapping[str, Any]]) -> None:
        """These are all nodes of the cluster."""
        for _ in self.list_nodes(items):
            pass

    def list_nodes(self, items: Iterable[Mapping[str, Any]]) -> Iterator[None]:
        """As :meth:`nodes_listed`, one node in each step: a new one takes long."""
        found = {item["metadata"]["name"]: item for item in items}
        for name in [name for name in self._nodes.names() if name not in found]:
            self.node_deleted(name)
        for item in found.values():
            self.node_changed(item, is_listed=True)
            yield

    def node_changed(self, item: Mapping[str, Any], *, is_listed: bool = False) -> None:
        """A node is new, or has changed.

        :param is_listed: it is as the server has it now; else it is left out when a later state is known.
        """
        name = item["metadata"]["name"]
        if self._nodes.put(item, is_listed=is_listed):
            self._left(name)
        self._tell_problems()

    def node_deleted(self, name: str) -> None:
        """A node is there no more."""
        self._devices.forget_node(name)
        if self._nodes.remove(name):
            self._left(name)

    def use(self, spec: FleetSpec) -> None:
        """The fleet has another configuration."""
        for name in self._nodes.use(spec):
            self._left(name)
        self._tell_problems()

    def _left(self, name: str) -> None:
        self._changed_pods.add(self._bound.get(name, {}))

    def _tell_problems(self) -> None:
        for name, uid, text in self._nodes.take_new_problems():
            self._reports.add(of_node(name, uid, "NotSimulated", text))

    # -- pods -------------------------------------------------------------------------------------

    def pods_listed(self, pods: Iterable[Pod]) -> None:
        """These are all pods of the cluster that are bound to a node and want devices."""
        for _ in self.list_pods(pods):
            pass

    def list_pods(self, pods: Iterable[Pod]) -> Iterator[None]:
        """As :meth:`pods_listed`, one pod in each step."""
        found = {(pod.namespace, pod.name): pod for pod in pods if pod.node and pod.wants_devices}
        for key in [key for key, record in self._pods.items() if key not in found and not record.is_gone]:
            self.pod_deleted(*key)
        # Those of one node get their devices in the order in which they started, whatever the order of the list.
        for pod in sorted(found.values(), key=lambda pod: (pod.started or "~", pod.namespace, pod.name)):
            self.pod_changed(pod)
            yield

    def pod_changed(self, pod: Pod) -> None:
        """A pod is new, or has changed."""
        if not pod.node or not pod.wants_devices:
            return
        key = (pod.namespace, pod.name)
        known = self._pods.get(key)
        if known is None:
            self._pods[key] = PodRecord(pod)
        elif known.pod.uid != pod.uid or known.is_gone:
            self._release(known)  # another pod of the same name; its work changes from that of the old one
            self._pods[key] = known.successor(pod)
        elif not known.update(pod):
            return
        self._bound.setdefault(pod.node, {})[key] = None
        self._place_again([key])

    def pod_deleted(self, namespace: str, name: str) -> None:
        """A pod is there no more."""
        key = (namespace, name)
        record = self._pods.get(key)
        if record is None:
            return
        self._release(record)
        record.is_gone = True
        self._changed_pods.add(key)

    def _release(self, record: PodRecord) -> None:
        bound = self._bound.get(record.pod.node, {})
        bound.pop(record.key, None)
        if not bound:
            self._bound.pop(record.pod.node, None)
        self._evictions.pop(record.key, None)
        if self._devices.release(record):
            self._place_lacking(record.pod.node)

    def reported(self, node: str, allocations: Sequence[Allocation]) -> None:
        """What the kubelet of a node says of its containers' devices."""
        self._devices.reported(node, allocations)
        self._place_again(self._bound.get(node, ()))

    def claims_listed(self, claims: Iterable[Claim]) -> None:
        """These are all resource claims."""
        self._place_again(self._devices.claims_listed(claims))

    def claim_changed(self, claim: Claim) -> None:
        """A resource claim is new, or has changed."""
        self._place_again(self._devices.claim_changed(claim))

    def claim_deleted(self, namespace: str, name: str) -> None:
        """A resource claim is there no more."""
        self._place_again(self._devices.claim_deleted(namespace, name))

    def prepared(self, node: str, namespace: str, claim: str, uid: str) -> Sequence[PreparedDevice]:
        """The devices of a node that a claim has.

        :raises Refused: ``unknown-name``, when its allocation is not known (yet).
        """
        return self._devices.prepared(node, namespace, claim, uid)

    def _place_again(self, keys: Iterable[PodKey]) -> None:
        for key in keys:
            record = self._pods.get(key)
            if record is not None and not record.is_gone:
                self._changed_pods.add(key)
                if self._devices.place(record):
                    self._place_lacking(record.pod.node)

    def _place_lacking(self, name: str) -> None:
        """Devices may be free now: give them to the pods of a node that lack some, in order of arrival."""
        node = self._nodes.get(name)
        if node is not None and node.lacking:
            self._place_again(list(node.lacking))

    # -- health and ends of work ------------------------------------------------------------------

    def health_changed(self, name: str, health: NodeHealth, *, is_told: bool = False) -> None:
        """The health of a node's devices, as the cluster sees it, has changed. It was reported before if it is told."""
        node = self._nodes.get(name)
        if node is None or node.health == health:
            return
        before, node.health = node.health, health
        self._nodes.changed[name] = self._nodes.viewed[name] = self._nodes.sliced[name] = None
        for report in () if is_told else reports_of_health(node.name, node.uid, before, health):
            self._reports.add(report)
        became = [each for each in health.unhealthy if each not in before.unhealthy]
        healed = [each for each in before.unhealthy if each not in health.unhealthy]
        is_back = before.is_down and not health.is_down
        for key in self._bound.get(name, ()):
            record = self._pods[key]
            if is_back or (healed and record.has_any(node, healed)):
                record.work_again()
                self._changed_pods.add(key)
            if became and self._settings.struck is Struck.EVICT and record.is_there and record.has_any(node, became):
                self._evictions[key] = None
                self._report_pod(record, "Evicting", f"a device of it on {name} has failed: it is evicted")
        if healed:
            self._place_lacking(name)

    def ended(self, key: WorkKey, code: int, text: str = "") -> float:
        """The work of a container has ended in the fleet: it idles, after a failure until its devices are healthy.

        :param text: why.
        :returns: after how many seconds :meth:`again_pod` is to be called; 0: not at all.
        """
        record = self._pods.get(key[:2])
        if record is None:
            return 0.0
        self._changed_pods.add(key[:2])
        if code:
            self._report_pod(record, "WorkFailed", f"container {key[2]}: {text}; it is tried again")
        return record.ended(key[2], code)

    def refused(self, key: WorkKey, reason: str) -> None:
        """The fleet does not run the work of a container."""
        record = self._pods.get(key[:2])
        if record is not None:
            record.running.pop(key[2], None)
            self._report_pod(record, "NotSimulated", f"container {key[2]}: {reason}")

    def again_pod(self, namespace: str, name: str) -> None:
        """Try once more what was refused, or has failed; work does not begin on devices that are unhealthy."""
        record = self._pods.get((namespace, name))
        if record is None:
            return
        node = self._nodes.get(record.pod.node)
        if node is not None and not node.health.is_down and not record.has_any(node, node.health.unhealthy):
            record.struck.clear()
        self._changed_pods.add((namespace, name))

    # -- what follows -----------------------------------------------------------------------------

    def fleet_nodes(self) -> Mapping[str, str]:
        """The nodes that the fleet is to have, each with its pool; the same object until that changes."""
        return self._nodes.pools_of_nodes

    def take_joined(self, most: int | None = None) -> list[str]:
        """The nodes that are new, or have other devices, at most so many; their pods have their devices then."""
        taken = list(islice(self._nodes.renewed, most))
        for name in taken:
            del self._nodes.renewed[name]
            for key in self._bound.get(name, ()):
                self._pods[key].work_again()
            self._place_again(list(self._bound.get(name, ())))
            node = self._nodes.get(name)
            if node is not None and node.problem:
                self._report_node(node, "InvalidMigStrategy", node.problem)
        return taken

    def take_patches(self, most: int) -> list[tuple[str, NodePatches]]:
        """What is to be changed at nodes of the API, of at most so many nodes.

        At most :data:`_MAX_COMPARED` nodes that have changed are compared; :attr:`has_more_nodes` tells of others.
        """
        found = self._nodes.take_left(most)
        for name in list(islice(self._nodes.changed, _MAX_COMPARED)):
            if len(found) >= most:
                break
            del self._nodes.changed[name]
            node = self._nodes.get(name)
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
        return bool(self._nodes.changed or self._nodes.left)

    def again(self, name: str) -> None:
        """Compare a node with what is wanted once more."""
        if self._nodes.get(name) is not None:
            self._nodes.changed[name] = None

    def take_work(self, is_there: Callable[[str, str], bool], most: int) -> list[WorkChange]:
        """See ChangedPods; :attr:`has_more_work` tells afterwards whether there are others."""
        return self._changed_pods.take(is_there, most)

    @property
    def has_more_work(self) -> bool:
        """Whether the last :meth:`take_work` left pods for the next one."""
        return self._changed_pods.has_more

    def take_evictions(self) -> list[Pod]:
        """The pods that are to be evicted."""
        taken = [self._pods[key].pod for key in self._evictions]
        self._evictions.clear()
        return taken

    def again_evict(self, pod: Pod) -> None:
        """A pod could not be evicted: it is to be evicted still, if its devices are unhealthy."""
        key = (pod.namespace, pod.name)
        record, node = self._pods.get(key), self._nodes.get(pod.node)
        if record is None or node is None or record.pod.uid != pod.uid or not record.is_there:
            return
        if record.has_any(node, node.health.unhealthy):
            self._evictions[key] = None

    def take_reports(self) -> list[Report]:
        """What is to be said of nodes and pods."""
        return self._reports.take()

    def take_views(self) -> list[str]:
        """The nodes whose view has changed, for their fakedev-node."""
        taken = list(self._nodes.viewed)
        self._nodes.viewed.clear()
        return taken

    def take_slices(self) -> list[tuple[str, list[dict[str, Any]]]]:
        """The nodes whose ResourceSlices may have changed, each with those that are wanted."""
        taken = list(self._nodes.sliced)
        self._nodes.sliced.clear()
        found = [(name, self._nodes.get(name)) for name in taken]
        return [(name, node.slices() if node is not None else []) for name, node in found]

    # -- questions --------------------------------------------------------------------------------

    @property
    def has_joined(self) -> bool:
        """Whether nodes wait to be taken by :meth:`take_joined`."""
        return bool(self._nodes.renewed)

    @property
    def is_changed(self) -> bool:
        """Whether there may be something to be taken."""
        nodes = self._nodes
        of_nodes = nodes.changed, nodes.left, nodes.viewed, nodes.sliced, nodes.renewed
        return any((self._changed_pods, self._reports, self._evictions, *of_nodes))

    @property
    def problems(self) -> Mapping[str, str]:
        """Why nodes with the label are not simulated, by their names."""
        return self._nodes.problems

    def node(self, name: str) -> ClusterNode | None:
        """The simulated node of that name, or None."""
        return self._nodes.get(name)

    def view(self, name: str) -> NodeView | None:
        """What the fakedev-node of a node offers to its kubelet; None: the node is not simulated."""
        node = self._nodes.get(name)
        return None if node is None else node.view()

    def devices(self, name: str) -> NodeDevices | None:
        """The devices of a simulated node."""
        node = self._nodes.get(name)
        return None if node is None else node.devices

    def node_uid(self, name: str) -> str:
        """The UID of a simulated node; empty when it is not known."""
        node = self._nodes.get(name)
        return node.uid if node is not None else ""

    def uid_of(self, namespace: str, name: str) -> str:
        """The UID of a pod; empty when it is not known."""
        record = self._pods.get((namespace, name))
        return record.pod.uid if record is not None else ""

    def nodes(self) -> Iterable[ClusterNode]:
        """The simulated nodes."""
        return iter(self._nodes)

    def pods(self) -> Iterable[tuple[Pod, ClusterNode]]:
        """The pods on simulated nodes."""
        for record in self._pods.values():
            node = self._nodes.get(record.pod.node)
            if node is not None and not record.is_gone:
                yield record.pod, node

    def _report_node(self, node: ClusterNode, reason: str, message: str) -> None:
        if node.told.add_new(reason, message):
            self._reports.add(Report("Node", node.name, "", node.uid, reason, message, is_once=True))

    def _report_pod(self, record: PodRecord, reason: str, message: str) -> None:
        if record.told.add_new(reason, message):
            pod = record.pod
            self._reports.add(Report("Pod", pod.name, pod.namespace, pod.uid, reason, message, is_once=True))
