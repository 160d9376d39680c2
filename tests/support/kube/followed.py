"""The whole application in memory, following a cluster in memory: one clock for both."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twisted.protocols.policies import WrappingFactory

from fakedev.net.kube.node_port import NodePortFactory
from tests.support.application import BEGIN, AppReactor, LineClient, MemoryApplication
from tests.support.kube.api_server import ClusterApi
from tests.support.kube.memory_reactor import LinkedReactor

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
    """

    def __init__(self, folder: Path, pool: str = "", more: str = "", text: str = POOLS, record: str = "") -> None:
        self.reactor = ClusterReactor()
        self.api = ClusterApi(self.reactor)
        self.api.start()
        kubeconfig = os.path.join(folder, "kubeconfig")
        Path(kubeconfig).write_text(self.api.kubeconfig, encoding="utf-8")
        self.text = text.format(kubeconfig=kubeconfig, pool=pool, more=more)
        self._record = record
        self.app: MemoryApplication = None  # type: ignore[assignment]  # start

    def start(self) -> None:
        """Start the application; ticks follow."""
        self.app = MemoryApplication(self.text, self._record, reactor=self.reactor)
        self.reactor.settle()

    def tick(self, count: int = 1) -> None:
        """Let ticks pass, and what follows from each."""
        for _ in range(count):
            self.reactor.settle()
            self.reactor.advance(1)
            self.reactor.settle()

    def page(self, node: str) -> str:
        """The metrics of a node."""
        answer = self.app.get(f"/nodes/{node}/metrics")
        return str(answer.body.decode()) if answer.status == 200 else f"status {answer.status}"

    def node(self, name: str) -> Any:
        """A node of the API."""
        return self.api.get("nodes", name)

    def say(self, *lines: str) -> list[str]:
        """Words at the workload port."""
        client = self.app.connect()
        answers = client.say(*lines)
        client.leave()
        return answers

    def node_client(self) -> LineClient:
        """A connection to the node port."""
        return LineClient(self.app.factories(NodePortFactory)[0], self.reactor)
