"""The service that follows a cluster: holds the lease, watches nodes and pods, and stops in good order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred

from fakedev.kube.cluster import Cluster
from fakedev.kube.cluster_node import slim_node
from fakedev.kube.dra_claims import Claim, read_claim
from fakedev.kube.pods import Pod, read_pod
from fakedev.net.kube.api_client import ApiClient
from fakedev.net.kube.controller import Controller
from fakedev.net.kube.lease import Lease
from fakedev.net.kube.slice_writer import CLAIMS_PATH, SLICES_PATH, SliceWriter, our_slice
from fakedev.net.kube.watch import Watch


class NodeWatcher:
    """Tells a controller the nodes of a cluster."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def listed(self, items: list[Mapping[str, Any]]) -> None:
        """See WatchHandler."""
        self._controller.nodes_listed(items)

    def changed(self, item: Mapping[str, Any]) -> None:
        """See WatchHandler."""
        self._controller.inbox.put(self._controller.cluster.node_changed, item)
        self._controller.changed()

    def deleted(self, item: Mapping[str, Any]) -> None:
        """See WatchHandler."""
        self._controller.inbox.put(self._controller.cluster.node_deleted, item["metadata"]["name"])
        self._controller.changed()

    def lost(self, reason: str) -> None:
        """Nothing: the fleet keeps its nodes until there is a new list."""


class PodWatcher:
    """Tells a controller the pods that are bound and want devices."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._cluster: Cluster = controller.cluster

    def listed(self, pods: list[Pod]) -> None:
        """See WatchHandler."""
        self._controller.inbox.put_list(self._cluster.list_pods(pods))
        self._controller.changed()

    def changed(self, pod: Pod) -> None:
        """See WatchHandler."""
        self._controller.inbox.put(self._cluster.pod_changed, pod)
        self._controller.changed()

    def deleted(self, pod: Pod) -> None:
        """See WatchHandler."""
        self._controller.inbox.put(self._cluster.pod_deleted, pod.namespace, pod.name)
        self._controller.changed()

    def lost(self, reason: str) -> None:
        """Nothing: pods stay as they were until there is a new list."""


class ClaimWatcher:
    """Tells a controller the resource claims."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._cluster: Cluster = controller.cluster

    def listed(self, claims: list[Claim]) -> None:
        """See WatchHandler."""
        self._controller.inbox.put(self._cluster.claims_listed, claims)
        self._controller.changed()

    def changed(self, claim: Claim) -> None:
        """See WatchHandler."""
        self._controller.inbox.put(self._cluster.claim_changed, claim)
        self._controller.changed()

    def deleted(self, claim: Claim) -> None:
        """See WatchHandler."""
        self._controller.inbox.put(self._cluster.claim_deleted, claim.namespace, claim.name)
        self._controller.changed()

    def lost(self, reason: str) -> None:
        """Nothing: claims stay as they were until there is a new list."""


def pod_with_devices(item: Mapping[str, Any]) -> Pod | None:
    """What is kept of a pod's object; None when it concerns no device."""
    pod = read_pod(item)
    return pod if pod.node and pod.wants_devices else None


class ClusterFollower(Service):
    """Follows a cluster while it holds the lease.

    :param make_lease: makes the lease from what is called when it is acquired, when it is lost, and while another one
        holds it.
    :param slices: None: devices are not offered by ResourceSlices.
    """

    def __init__(
        self,
        client: ApiClient,
        controller: Controller,
        make_lease: Callable[[Callable[[], None], Callable[[str], None], Callable[[str], None]], Lease],
        slices: SliceWriter | None = None,
    ) -> None:
        self.client = client
        self.controller = controller
        self._slices = slices
        self._watches: list[Watch] = []
        self._lease = make_lease(self._acquired, self._lost, self._waits)
        self._reason = "the lease is not held yet"

    def startService(self) -> None:
        """Begin to acquire the lease."""
        super().startService()
        self._lease.start()

    def stopService(self) -> Deferred[Any]:
        """End the streams and give the lease back; nothing in the cluster is undone."""
        super().stopService()
        self.controller.stop()
        for watch in self._watches:
            watch.stop()
        stopped: Deferred[Any] = self._lease.stop().addBoth(lambda _: self.client.stop())
        return stopped

    def trouble(self) -> str | None:
        """Why fakedev does not follow the cluster now; None when it does."""
        if self.client.troubles.texts:
            return self.client.troubles.texts[0]  # they tell more of why there is no lease
        if self._reason:
            return self._reason
        if not self._watches or not all(watch.is_current for watch in self._watches):
            return "the nodes and pods of the cluster are not known yet"
        return self.controller.nodes.problem or None

    @property
    def is_leader(self) -> bool:
        """Whether this process holds the lease."""
        return self._lease.is_held

    def _acquired(self) -> None:
        self._reason = ""
        self.controller.resume()
        self._watches = list(self._make_watches())
        for watch in self._watches:
            watch.start()

    def _make_watches(self) -> Iterator[Watch]:
        client, controller = self.client, self.controller
        yield Watch(client, "/api/v1/nodes", NodeWatcher(controller), client.clock, read=slim_node)
        yield Watch(
            client, "/api/v1/pods", PodWatcher(controller), client.clock,
            field_selector="spec.nodeName!=", read=pod_with_devices,
        )  # fmt: skip
        if self._slices is not None:
            yield Watch(client, CLAIMS_PATH, ClaimWatcher(controller), client.clock, read=read_claim)
            yield Watch(client, SLICES_PATH, self._slices, client.clock, read=our_slice)

    def _lost(self, reason: str) -> None:
        self._reason = reason
        self.controller.pause()
        if self._slices is not None:
            self._slices.lost(reason)
        self.client.cancel_changes()
        for watch in self._watches:
            watch.stop()
        self._watches = []

    def _waits(self, reason: str) -> None:
        self._reason = reason
