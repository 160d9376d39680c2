"""The whole application in memory, following a cluster in memory: one clock for both."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twisted.protocols.policies import WrappingFactory

from fakedev.kubernetes.nodes.node_port import NodePortFactory
from fakedev.web.site import Site
from tests.support.application import BEGIN, AppReactor, LineClient, MemoryApplication
from tests.support.kube.api_server import ClusterApi, node
from tests.support.kube.memory_reactor import LinkedReactor
from tests.support.wire.http_wire import Answer, Peer, answers

#: One pool for the nodes of the cluster, its pages, and a port for faults.
POOLS = """
fleet:
  seed: 7
  pools: [{{name: h100, nodes: cluster, device: h100, devices-per-node: 8, identity: dcgm@4.8.2{pool}}}]
web: ["127.0.0.1:9400"]
workloads: {{listen: ["127.0.0.1:9500"]}}
kubernetes: {{kubeconfig: {kubeconfig}{more}}}
"""
LABEL = "fakedev/pool"
GPU = "nvidia.com/gpu"


class ClusterReactor(LinkedReactor, AppReactor):  # type: ignore[misc]
    """Connections of the client of the API reach the API server; the application's ports are those of its tests."""

    def __init__(self) -> None:
        super().__init__()
        self.rightNow = BEGIN

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:
        """The API server listens in the linked reactor."""
        if isinstance(factory, WrappingFactory):
            return LinkedReactor.listenTCP(self, port, factory, backlog, interface)
        return AppReactor.listenTCP(self, port, factory, backlog, interface)


class FollowedCluster:
    """A cluster in memory and an application that follows it.

    :param folder: for the kubeconfig.
    :param pool, more: further keys of the pool, and of ``kubernetes:``, each with a comma before it.
    :param text: the configuration, with places for these.
    :param beside: another one, whose cluster, reactor and configuration this one shares.
    """

    def __init__(
        self, folder: Path, pool: str = "", more: str = "", text: str = POOLS, record: str = "",
        beside: FollowedCluster | None = None,
    ) -> None:  # fmt: skip
        self.reactor = beside.reactor if beside is not None else ClusterReactor()
        self.api = beside.api if beside is not None else ClusterApi(self.reactor)
        if beside is None:
            self.api.start()
        kubeconfig = os.path.join(folder, "kubeconfig")
        Path(kubeconfig).write_text(self.api.kubeconfig, encoding="utf-8")
        self._values = {"kubeconfig": kubeconfig, "pool": pool, "more": more}
        self.text = text.format(**self._values)
        self._record = record
        self._site: Any = None
        self.app: MemoryApplication = None  # type: ignore[assignment]  # start

    def start(self) -> None:
        """Start the application; ticks follow."""
        self.app = MemoryApplication(self.text, self._record, reactor=self.reactor)
        # Others may have the same reactor: the last one is ours.
        self._site = self.app.factories(Site)[-1]
        self.reactor.settle()

    def stop(self) -> None:
        """Stop the application as SIGTERM does."""
        ended: list[object] = []
        self.app.service.stopService().addBoth(ended.append)
        self.reactor.pass_seconds(4)
        assert ended == [None]

    def start_again(self) -> None:
        """Stop the application, and start another one."""
        self.stop()
        self.start()

    def ask_reload(self, text: str) -> Peer:
        """Ask for a reload with another configuration, with places as at the start: it is done in the next tick."""
        self.app.text = self.text = text.format(**self._values)
        peer = self.app.http(self._place)
        peer.send(b"POST /-/reload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        self.reactor.settle()
        return peer

    def reload(self, text: str) -> Answer:
        """Reload, with a tick; the answer of the port."""
        peer = self.ask_reload(text)
        self.tick(1)
        peer.read()
        (answer,) = answers(peer.transport.value())
        return answer

    def tick(self, count: int = 1) -> None:
        """Let ticks pass, and what follows from each."""
        for _ in range(count):
            self.reactor.settle()
            self.reactor.advance(1)
            self.reactor.settle()

    # -- what the application shows -----------------------------------------------------------------

    @property
    def _place(self) -> int:
        return self.app.factories(Site).index(self._site)

    def get(self, path: str) -> Any:
        """The answer to GET of a path."""
        return self.app.get(path, place=self._place)

    def page(self, node: str) -> str:
        """The metrics of a node."""
        answer = self.get(f"/nodes/{node}/metrics")
        return str(answer.body.decode()) if answer.status == 200 else f"status {answer.status}"

    def rows(self, node: str, family: str = "DCGM_FI_DEV_GPU_UTIL") -> list[dict[str, str]]:
        """The labels of each row of a family on the page of a node, with its ``value``."""
        found = []
        for labels, value in re.findall(rf"^{family}{{(.*)}} (\S+)", self.page(node), re.MULTILINE):
            found.append(dict(re.findall(r'(\w+)="([^"]*)"', labels)) | {"value": value})
        return found

    def held(self, node: str) -> dict[tuple[str, str], list[str]]:
        """The UUIDs of the devices of each pod and container on the page of a node, instances by their own number."""
        found: dict[tuple[str, str], list[str]] = {}
        for row in self.rows(node):
            if row.get("pod"):
                instance = f"/{row['GPU_I_ID']}" if row.get("GPU_I_ID") else ""
                found.setdefault((row["pod"], row["container"]), []).append(row["UUID"] + instance)
        return found

    def metric(self, name: str, **labels: str) -> float:
        """A value of our own metrics, of the row with these labels; 0 when there is none."""
        for given, value in re.findall(rf"^{name}(?:{{(.*)}})? (\S+)", self.own_metrics, re.MULTILINE):
            found = dict(re.findall(r'(\w+)="([^"]*)"', given))
            if labels.items() <= found.items():
                return float(value)
        return 0.0

    @property
    def own_metrics(self) -> str:
        """The page /-/metrics."""
        return str(self.get("/-/metrics").body.decode())

    @property
    def ready(self) -> str:
        """What /readyz says; empty when it is ready."""
        answer = self.get("/readyz")
        return "" if answer.status == 200 else str(json.loads(answer.body)["reason"])

    # -- what the cluster has -----------------------------------------------------------------------

    def node(self, name: str) -> Any:
        """A node of the API."""
        return self.api.get("nodes", name)

    def counts(self, node: str, resource: str = GPU) -> tuple[str | None, str | None]:
        """Capacity and allocatable of a resource of a node."""
        status = self.node(node)["status"]
        return status["capacity"].get(resource), status["allocatable"].get(resource)

    def events(self, name: str = "") -> list[tuple[str, str, str]]:
        """Object, reason and message of the Events of an object, or of all, in order of arrival."""
        items = sorted(self.api.items("events"), key=lambda item: int(item["metadata"]["resourceVersion"]))
        found = [(item["involvedObject"]["name"], item["reason"], item["message"]) for item in items]
        return [each for each in found if name in ("", each[0])]

    def reasons(self, name: str) -> list[str]:
        """The reasons of the Events of an object."""
        return [reason for _, reason, _ in self.events(name)]

    # -- what users do ------------------------------------------------------------------------------

    def say(self, *lines: str, ticks: int = 0) -> list[str]:
        """Words at the workload port; then some ticks pass."""
        client = self.app.connect()
        answers = client.say(*lines)
        client.leave()
        self.tick(ticks)
        return answers

    def add(self, item: Any, ticks: int) -> Any:
        """Create an object in the cluster; then some ticks pass."""
        stored = self.api.add(item)
        self.tick(ticks)
        return stored

    def modify(self, resource: str, name: str, patch: Any, ticks: int) -> None:
        """Merge a patch into an object of the cluster; then some ticks pass."""
        self.api.modify(resource, name, patch)
        self.tick(ticks)

    def remove(self, resource: str, name: str, ticks: int) -> None:
        """Delete an object of the cluster; then some ticks pass."""
        self.api.remove(resource, name)
        self.tick(ticks)

    def node_client(self) -> LineClient:
        """A connection to the node port."""
        return LineClient(self.app.factories(NodePortFactory)[0], self.reactor)


DRIVER = "gpu.nvidia.com"
SLICES, CLAIMS = "resourceslices", "resourceclaims"


def followed(
    folder: Path, *names: str, labels: Mapping[str, str] = {}, has_kubelet: bool = False, ticks: int = 2, **options: Any
) -> FollowedCluster:  # fmt: skip
    """A cluster with nodes of the pool h100, or of their labels, and an application that follows it.

    :param options: of the FollowedCluster.
    """
    cluster = FollowedCluster(folder, **options)
    for name in names:
        cluster.api.add(node(name, {LABEL: labels.get(name, "h100")}, has_kubelet=has_kubelet))
    cluster.start()
    cluster.tick(ticks)
    return cluster


def slices_of(cluster: FollowedCluster, name: str = "a") -> list[Any]:
    """The slices of a node."""
    return [each for each in cluster.api.items(SLICES) if each["spec"]["nodeName"] == name]


def taints(cluster: FollowedCluster) -> dict[str, list[tuple[str, str, str]]]:
    """Key, value and effect of the taints of each device that has any."""
    devices = [device for slice_ in slices_of(cluster) for device in slice_["spec"].get("devices", ())]
    return {
        device["name"]: [(each["key"], each.get("value", ""), each["effect"]) for each in device["taints"]]
        for device in devices
        if device.get("taints")
    }


def generation(cluster: FollowedCluster) -> int:
    """Of the node's pool, which all its slices have."""
    (found,) = {slice_["spec"]["pool"]["generation"] for slice_ in slices_of(cluster)}
    return int(found)
