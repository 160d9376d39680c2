"""Gives the pods of a cluster their devices: by the rules of a kubelet, by what a kubelet says, by resource claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fakedev.kube.allocation import NotEnough
from fakedev.kube.claim_table import ClaimTable
from fakedev.kube.cluster_node import ClusterNode
from fakedev.kube.dra_claims import Claim
from fakedev.kube.node_table import NodeTable
from fakedev.kube.node_view import Allocation, PreparedDevice
from fakedev.kube.pod_record import PodKey, PodRecord
from fakedev.kube.work import work_of
from fakedev.spec.kubernetes import KubernetesSettings

#: Says something of a pod: reason and message of an Event.
TellOfPod = Callable[[PodRecord, str, str], None]


class PodDevices:
    """Places pods on the devices of their nodes.

    :param tell: told what a pod does not get, and what of it cannot be read.
    """

    def __init__(self, settings: KubernetesSettings, nodes: NodeTable, tell: TellOfPod) -> None:
        self._settings = settings
        self._nodes = nodes
        self._tell = tell
        self._claims = ClaimTable()
        self._reported: dict[str, Sequence[Allocation]] = {}

    # -- what is known ----------------------------------------------------------------------------

    def reported(self, node: str, allocations: Sequence[Allocation]) -> None:
        """What the kubelet of a node says of its containers' devices."""
        self._reported[node] = allocations

    def forget_node(self, name: str) -> None:
        """A node is there no more."""
        self._reported.pop(name, None)

    def claims_listed(self, claims: Iterable[Claim]) -> Iterable[PodKey]:
        """These are all resource claims; the pods that it concerns."""
        return self._claims.listed(claims)

    def claim_changed(self, claim: Claim) -> Iterable[PodKey]:
        """A resource claim is new, or has changed; the pods that it concerns."""
        return self._claims.put(claim)

    def claim_deleted(self, namespace: str, name: str) -> Iterable[PodKey]:
        """A resource claim is there no more; the pods that it concerned."""
        return self._claims.remove(namespace, name)

    def prepared(self, node: str, namespace: str, claim: str, uid: str) -> Sequence[PreparedDevice]:
        """See ClaimTable."""
        return self._claims.prepared(node, namespace, claim, uid)

    # -- what follows -----------------------------------------------------------------------------

    def place(self, record: PodRecord) -> bool:
        """Give a pod its devices, or find out which it was given.

        :returns: whether devices may have become free for others of its node.
        """
        node = self._nodes.get(record.pod.node)
        if node is None:
            return False
        if record.pod.is_over:
            return self._take_back(record, node)
        self._claims.note_pod(record.pod)
        if record.work is None or record.worked_for is not node.pool:
            record.work, record.worked_for = work_of(record.pod, self._settings, node.pool), node.pool
            for problem in record.work.problems:
                self._tell(record, "UnreadableAnnotation", problem)
        if record.pod.claims:
            record.claimed = self._claims.devices_of(record.pod, node)
            for problem in record.claimed.problems:
                self._tell(record, "UnknownDevice", problem)
        if node.has_kubelet:
            self._adopt(record, node)
        else:
            self._admit(record, node)
        return False

    def release(self, record: PodRecord) -> bool:
        """A pod is gone; whether devices may have become free for others of its node."""
        self._claims.forget_pod(record.pod)
        node = self._nodes.get(record.pod.node)
        return node is not None and self._take_back(record, node)

    def _take_back(self, record: PodRecord, node: ClusterNode) -> bool:
        had_any = bool(node.allocation.slots_of(record.pod.uid))
        node.allocation.release(record.pod.uid)
        node.lacking.pop(record.key, None)
        return had_any

    def _admit(self, record: PodRecord, node: ClusterNode) -> None:
        try:
            # A pod that runs already was given its devices when they were healthy.
            unhealthy = () if record.pod.phase == "Running" else node.health.unhealthy.keys()
            node.allocation.admit(record.pod, unhealthy)
            node.lacking.pop(record.key, None)
        except NotEnough as lack:
            node.lacking[record.key] = None
            self._tell(record, "UnexpectedAdmissionError", str(lack))

    def _adopt(self, record: PodRecord, node: ClusterNode) -> None:
        pod = record.pod
        containers: dict[str, list[str]] = {}
        for each in self._reported.get(node.name, ()):
            # Devices of claims are known by the claims themselves, with their labels.
            if (each.namespace, each.pod) == (pod.namespace, pod.name) and not each.claim:
                containers.setdefault(each.container, []).extend(each.ids)
        for unknown in node.allocation.adopt(pod.uid, containers):
            self._tell(record, "UnknownDevice", f"the kubelet of {node.name} gave it {unknown}, which is unknown")
