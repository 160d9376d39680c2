"""The service that follows a cluster: lease, watches of nodes and pods, an orderly stop; and its metrics.

The metrics of the connection are on /-/metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from fakedev.kubernetes.client.api_client import ApiClient
from fakedev.kubernetes.client.lease import LATE_SECONDS, Lease
from fakedev.kubernetes.client.watch import IWatchHandler, Watch
from fakedev.kubernetes.controller import Controller
from fakedev.kubernetes.devices.dra import read_claim
from fakedev.kubernetes.domains.compute_domain import DOMAINS_PATH, read_compute_domain
from fakedev.kubernetes.domains.domain_objects import DomainObjects
from fakedev.kubernetes.faults.device_fault import FAULTS_PATH, read_device_fault
from fakedev.kubernetes.faults.fault_objects import FaultObjects
from fakedev.kubernetes.nodes.node_status import slim_node
from fakedev.kubernetes.owned_objects import CLAIMS_PATH, SLICES_PATH, SliceWriter, our_slice
from fakedev.kubernetes.pods import Pod, read_pod


@implementer(IWatchHandler)
class ClusterWatcher:
    """Puts the objects of a watch into a controller's inbox. What is known stays while the watch is lost: the next list
    has all that is missed.

    :param listed: takes all objects, one in each step.
    :param changed, deleted: take one object.
    """

    def __init__(
        self,
        controller: Controller,
        listed: Callable[[list[Any]], Iterator[None]],
        changed: Callable[[Any], None],
        deleted: Callable[[Any], None],
    ) -> None:
        self._controller = controller
        self._list, self._change, self._delete = listed, changed, deleted

    def listed(self, items: list[Any]) -> None:
        self._controller.inbox.put_list(self._list(items))
        self._controller.changed()

    def changed(self, item: Any) -> None:
        self._controller.inbox.put(self._change, item)
        self._controller.changed()

    def deleted(self, item: Any) -> None:
        self._controller.inbox.put(self._delete, item)
        self._controller.changed()


def pod_with_devices(item: Mapping[str, Any]) -> Pod | None:
    """What is kept of a pod's object; None when it concerns no device."""
    pod = read_pod(item)
    return pod if pod.node and pod.wants_devices else None


class ClusterFollower(Service):
    """Follows a cluster while it holds the lease.

    :param make_lease: makes the lease from its callbacks ``acquired``, ``lost`` and ``waiting``.
    :param slices: None: devices are not offered by ResourceSlices.
    :param faults: None: objects DeviceFault are not followed.
    :param domains: None: objects ComputeDomain are not followed.
    """

    def __init__(
        self,
        client: ApiClient,
        controller: Controller,
        make_lease: Callable[..., Lease],
        slices: SliceWriter | None = None,
        faults: FaultObjects | None = None,
        domains: DomainObjects | None = None,
    ) -> None:
        self.client = client
        self.controller = controller
        self._slices = slices
        self._faults = faults
        self._domains = domains
        self._watches: list[Watch] = []
        self._lease = make_lease(acquired=self._acquired, lost=self._lost, waiting=self._waits)
        self._reason = "the lease is not held yet"

    def startService(self) -> None:
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

    def unready_reason(self) -> str | None:
        """Why fakedev does not follow the cluster now; None when it does."""
        if self.client.open_problems.texts:
            return self.client.open_problems.texts[0]  # they say more on why there is no lease
        if self._reason:
            return self._reason
        if self._lease.is_late:
            return f"the API server has not answered for {LATE_SECONDS:g} s"
        missing = [watch.path for watch in self._watches if not watch.is_current]
        for path, key in ((FAULTS_PATH, "device-faults"), (DOMAINS_PATH, "compute-domains")):
            if missing == [path]:
                return f"the server does not list {path}: apply etc/kubernetes/components/{key}, or leave {key}: out"
        if missing or not self._watches:
            return "the nodes and pods of the cluster are not known yet"
        return self.controller.nodes.problem or None

    @property
    def is_leader(self) -> bool:
        return self._lease.is_held

    def _acquired(self) -> None:
        self._reason = ""
        self.controller.resume()
        self._watches = list(self._make_watches())
        for watch in self._watches:
            watch.start()

    def _make_watches(self) -> Iterator[Watch]:
        client, controller = self.client, self.controller
        cluster, pods = controller.cluster, controller.cluster.pods
        nodes = ClusterWatcher(
            controller, controller.list_nodes, cluster.node_changed,
            lambda item: cluster.node_deleted(item["metadata"]["name"]),
        )  # fmt: skip
        has = cluster.nodes.has  # what concerns nodes of other shards is dropped first: most of all objects
        yield Watch(
            client, "/api/v1/nodes", nodes, read=lambda item: slim_node(item) if has(item["metadata"]["name"]) else None
        )
        bound = {"fieldSelector": "spec.nodeName!="}
        handler = ClusterWatcher(controller, pods.list_pods, pods.put, lambda pod: pods.remove(pod.namespace, pod.name))
        yield Watch(
            client, "/api/v1/pods", handler, query=bound,
            read=lambda item: pod_with_devices(item) if has(item["spec"].get("nodeName", "")) else None,
        )  # fmt: skip
        if self._slices is not None:
            claims = ClusterWatcher(
                controller, pods.list_claims, pods.put_claim,
                lambda claim: pods.remove_claim(claim.namespace, claim.name),
            )  # fmt: skip
            yield Watch(client, CLAIMS_PATH, claims, read=read_claim)
            yield Watch(client, SLICES_PATH, self._slices, read=our_slice, lost=self._slices.lost)
        if self._faults is not None:
            yield Watch(client, FAULTS_PATH, self._faults, read=read_device_fault)
        if self._domains is not None:
            yield Watch(client, DOMAINS_PATH, self._domains, read=read_compute_domain)

    def _lost(self, reason: str) -> None:
        self._reason = reason
        self.controller.pause()
        if self._slices is not None:
            self._slices.lost(reason)
        for objects in (self._faults, self._domains):
            if objects is not None:
                objects.pause()
        self.client.cancel_changes()
        for watch in self._watches:
            watch.stop()
        self._watches = []

    def _waits(self, reason: str) -> None:
        self._reason = reason


def cluster_metrics(follower: ClusterFollower, clock: IReactorTime) -> Iterable[Metric]:
    """Requests and watches of the API, the lease, and what is simulated of the cluster."""
    statistics, controller = follower.client.statistics, follower.controller
    requests = CounterMetricFamily(
        "fakedev_kubernetes_requests", "Requests to the API server; code 0: no answer.",
        labels=["verb", "resource", "code"],
    )  # fmt: skip
    for (verb, resource, code), count in sorted(statistics.requests.items()):
        requests.add_metric([verb, resource, str(code)], count)
    yield requests
    restarts = CounterMetricFamily(
        "fakedev_kubernetes_watch_restarts", "Watches that began anew.", labels=["resource", "reason"]
    )
    for (resource, reason), count in sorted(statistics.watch_restarts.items()):
        restarts.add_metric([resource, reason], count)
    yield restarts
    lag = GaugeMetricFamily(
        "fakedev_kubernetes_watch_silence_seconds", "Time since the last list, event or bookmark.", labels=["resource"]
    )
    for resource, seconds in statistics.last_event_seconds.items():
        lag.add_metric([resource], max(0.0, clock.seconds() - seconds))
    yield lag
    for name, text, value in (
        ("connected", "1 if the API server answered the last request.", statistics.is_connected),
        ("leader", "1 if this process holds the lease of its shard.", follower.is_leader),
        ("nodes", "Simulated nodes.", sum(1 for _ in controller.cluster.nodes)),
        ("refused_nodes", "Nodes with the label that are not simulated.", len(controller.cluster.nodes.problems)),
        ("pods", "Pods on simulated nodes that want devices.", sum(1 for _ in controller.cluster.pods.on_nodes())),
        ("refused_patches", "Nodes that the API server does not let be changed.", controller.writer.refused_count),
        ("attached", "Nodes whose fakedev-node is connected.", controller.service.attached_count),
        ("registered", "Nodes whose kubelet has taken a device plugin.", controller.service.registered_count),
    ):
        yield GaugeMetricFamily(f"fakedev_kubernetes_{name}", text, float(value))
    dropped = "Events for nodes and pods that were dropped because too many waited."
    yield CounterMetricFamily("fakedev_kubernetes_dropped_events", dropped, controller.writer.events.dropped)
