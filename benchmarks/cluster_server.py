"""An API server in memory for benchmarks, a process of its own: reads commands, a JSON object a line, and answers each.

``python benchmarks/cluster_server.py KUBECONFIG`` writes the kubeconfig file, then answers with its first line. It
notes when nodes and pods have changed, by the clock that all processes share. It is the server of the tests
(tests/support/kube), whose cost does not count: only its own process has it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from itertools import cycle
from pathlib import Path
from time import monotonic
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from twisted.internet import reactor as installed
from twisted.internet.stdio import StandardIO
from twisted.internet.task import LoopingCall
from twisted.protocols.basic import LineOnlyReceiver

from tests.support.kube.api_server import ClusterApi, node, pod
from tests.support.kube.store import Change

_GPU = "nvidia.com/gpu"
#: What makes objects as long as those of real clusters: 5 kB for a pod, 9 kB for a node with its images.
_FIELDS = {f"f:{each}": {".": {}, "f:value": {}} for each in ("image", "name", "env", "ports", "resources", "phase")}
_MANAGED = [{"manager": f"manager-{each}", "operation": "Update", "fieldsV1": _FIELDS} for each in range(12)]
_IMAGES = [{"names": [f"registry.example/image-{each}@sha256:{each:064x}"], "sizeBytes": each} for each in range(40)]


class Cluster(LineOnlyReceiver):
    """The API server, and what the benchmark asks it to do."""

    delimiter = b"\n"

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self.api = ClusterApi(reactor)
        self.api.start()
        self.api.store.listeners.append(self._changed)
        self._pods: list[str] = []
        self._bound: dict[str, float] = {}
        self._binding: LoopingCall | None = None
        self._beating: LoopingCall | None = None
        #: When a node had its GPUs for the first time, and when its allocatable GPUs changed the last time.
        self._ready: dict[str, float] = {}
        self._allocatable: dict[str, tuple[str, float]] = {}
        self._added_at = 0.0

    def connectionMade(self) -> None:
        """Say that it listens."""
        self._answer({"url": self.api.url})

    def connectionLost(self, reason: object = None) -> None:
        """The benchmark is over."""
        if self._reactor.running:
            self._reactor.stop()

    def lineReceived(self, line: bytes) -> None:
        """One command."""
        given = json.loads(line)
        do: Callable[..., object] = getattr(self, f"do_{given.pop('do')}")
        self._answer(do(**given))

    def do_nodes(self, count: int, *, first: int = 0, has_kubelet: bool = False) -> object:
        """Add nodes of the pool."""
        self._added_at = monotonic()
        for number in range(first, first + count):
            item = node(f"node-{number}", {"fakedev/pool": "h100"}, has_kubelet=has_kubelet)
            item["metadata"]["managedFields"] = _MANAGED
            item["status"]["images"] = _IMAGES
            self.api.add(item)
        return {}

    def do_pods(self, count: int, nodes: int) -> object:
        """Add running pods with two GPUs each, on the nodes in turn."""
        for _ in range(count):
            self._add_pod(nodes)
        return {}

    def do_bind(self, count: int, nodes: int, rate: float) -> object:
        """Add as many, at so many pods a second."""
        end = len(self._pods) + count

        def add(_: int) -> None:
            if len(self._pods) < end:
                self._bound[self._add_pod(nodes)] = monotonic()
            elif self._binding is not None:
                self._binding.stop()

        self._binding = LoopingCall.withCount(add)
        self._binding.start(1 / rate)
        return {}

    def do_bound(self, since: int) -> object:
        """The pods of ``bind`` so far from the given number on: name, node, when."""
        names = list(self._bound)[since:]
        return [(name, self._node_of(int(name.rpartition("-")[2])), self._bound[name]) for name in names]

    def do_beat(self, rate: float) -> object:
        """Write the time of a heartbeat into the status of the nodes in turn, as KWOK does; 0: do so no more."""
        if self._beating is not None:
            self._beating.stop()
            self._beating = None
        names = cycle([item["metadata"]["name"] for item in self.api.items("nodes")])

        def beat() -> None:
            name = next(names)
            conditions = [{**each, "lastHeartbeatTime": f"{monotonic()}"} for each in self._node(name)["conditions"]]
            self.api.modify("nodes", name, {"status": {"conditions": conditions}})

        if rate:
            self._beating = LoopingCall(beat)
            self._beating.start(1 / rate)
        return {}

    def do_remove_node(self, name: str) -> object:
        """Delete a node."""
        self.api.remove("nodes", name)
        return {}

    def do_ready(self) -> object:
        """How many nodes have GPUs, and how long it took since they were added."""
        seconds = max(self._ready.values(), default=0.0) - self._added_at
        return {"count": len(self._ready), "seconds": seconds}

    def do_allocatable(self, name: str) -> object:
        """The allocatable GPUs of a node, and when they changed."""
        return self._allocatable.get(name, ("", 0.0))

    def do_requests(self) -> object:
        """How many requests there were."""
        return {" ".join(map(str, key)): count for key, count in self.api.requests.items()}

    def _answer(self, answer: object) -> None:
        self.sendLine(json.dumps(answer).encode())

    def _add_pod(self, nodes: int) -> str:
        number = len(self._pods)
        name = f"pod-{number}"
        self._nodes = nodes
        item = pod(name, self._node_of(number), {_GPU: "2"}, namespace="research")
        item["metadata"]["managedFields"] = _MANAGED
        self._pods.append(name)
        self.api.add(item)
        return name

    def _node(self, name: str) -> Any:
        return self.api.get("nodes", name)["status"]

    def _node_of(self, number: int) -> str:
        return f"node-{number % self._nodes}"

    def _changed(self, change: Change) -> None:
        if change.kind.resource != "nodes" or change.word != "MODIFIED":
            return
        name = change.item["metadata"]["name"]
        count = _gpus(change.item)
        if count and name not in self._ready:
            self._ready[name] = monotonic()
        if self._allocatable.get(name, ("", 0.0))[0] != count:
            self._allocatable[name] = count, monotonic()


def _gpus(item: Mapping[str, Any]) -> str:
    return str(item["status"].get("allocatable", {}).get(_GPU, ""))


def main() -> None:
    """Serve until the end of the input."""
    reactor: Any = installed
    cluster = Cluster(reactor)
    Path(sys.argv[1]).write_text(cluster.api.kubeconfig)
    StandardIO(cluster)
    reactor.run()


if __name__ == "__main__":
    main()
