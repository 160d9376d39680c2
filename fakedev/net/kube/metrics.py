"""What /-/metrics tells of the connection with a cluster."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from twisted.internet.interfaces import IReactorTime

from fakedev.net.kube.follower import ClusterFollower


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
    for resource, seconds in statistics.seconds_since_event(clock.seconds()).items():
        lag.add_metric([resource], seconds)
    yield lag
    for name, text, value in (
        ("connected", "1 if the API server answered the last request.", statistics.is_connected),
        ("leader", "1 if this process holds the lease of its shard.", follower.is_leader),
        ("nodes", "Simulated nodes.", sum(1 for _ in controller.cluster.nodes())),
        ("refused_nodes", "Nodes with the label that are not simulated.", len(controller.cluster.problems)),
        ("pods", "Pods on simulated nodes that want devices.", sum(1 for _ in controller.cluster.pods())),
        ("refused_patches", "Nodes that the API server does not let be changed.", controller.writer.refused_count),
        ("attached", "Nodes whose fakedev-node is connected.", controller.service.attached_count),
        ("registered", "Nodes whose kubelet has taken a device plugin.", controller.service.registered_count),
    ):
        yield GaugeMetricFamily(f"fakedev_kubernetes_{name}", text, float(value))
    dropped = "Events for nodes and pods that were dropped because too many waited."
    yield CounterMetricFamily("fakedev_kubernetes_dropped_events", dropped, controller.writer.dropped_reports)
