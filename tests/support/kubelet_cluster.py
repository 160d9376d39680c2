"""A cluster with a kubelet, of real programs: ``fakedev serve``, fakedev-node, and the API server of the tests."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from fakedev.node.options import Settings, parse
from tests.support.kube.api_server import ClusterApi, node
from tests.support.kubelet import Kubelet
from tests.support.programs.asynchronous import AsyncService, eventually, ready
from tests.support.programs.ports import free_port
from tests.support.programs.processes import PATIENCE_SECONDS, AsyncProgram, Changes, StartAsync, console

GPU = "nvidia.com/gpu"
NODE = "worker"
TOKEN = "secret-of-the-tests"
_CONFIGURATION = """
version: 1
fleet:
  seed: 7
  tick: 100ms
  pools: [{{name: h100, nodes: cluster, device: h100, devices-per-node: 8, identity: dcgm@4.8.2}}]
web: ["127.0.0.1:0"]
workloads: {{listen: []}}
kubernetes: {{kubeconfig: kubeconfig, listen: [{{listen: "127.0.0.1:{port}", tokens: ["{token}"]}}]{more}}}
"""


class KubeletCluster:
    """One node ``worker`` with the label, its kubelet, its fakedev-node, and the service.

    :param more: further keys of ``kubernetes:``, with a comma before each.
    """

    def __init__(self, folder: Path, start_async: StartAsync, more: str = "") -> None:
        self._folder = folder
        self._start_async = start_async
        self._changes = Changes()
        changed = self._changes.changed
        self.kubelet = Kubelet(folder / "kubelet", lambda: reactor.callFromThread(changed))
        self.api = ClusterApi(reactor)
        self.api.start()
        self.api.add(node(NODE, {"fakedev/pool": "h100"}, has_kubelet=True))
        self._port = free_port()
        (folder / "kubeconfig").write_text(self.api.kubeconfig, encoding="utf-8")
        text = _CONFIGURATION.format(port=self._port, token=TOKEN, more=more)
        (folder / "fakedev.yaml").write_text(text, encoding="utf-8")
        self.token_file = folder / "token"
        self.token_file.write_text(TOKEN, encoding="utf-8")
        self.service: AsyncService = None  # type: ignore[assignment]  # serve
        self.program: AsyncProgram | None = None

    async def serve(self) -> None:
        """Start the service, and wait until it has the node."""
        file = self._folder / "ready.json"
        options = ["--config", str(self._folder / "fakedev.yaml"), "--ready-file", str(file)]
        program = self._start_async([*console("fakedev"), "serve", *options], folder=self._folder)
        self.service = await ready(program, file)
        await eventually(self.page, "the fleet has the node")

    async def running(self, *options: str) -> None:
        """Start all; the kubelet can give eight GPUs to pods."""
        await deferToThread(self.kubelet.start)
        await self.serve()
        self.start_node(*options)
        await self.until_allocatable(8)

    def start_node(self, *options: str, name: str = NODE) -> AsyncProgram:
        """Start fakedev-node."""
        self.program = self._start_async([*console("fakedev-node"), *self._node_options(name), *options])
        return self.program

    def node_settings(self) -> Settings:
        """The same for an agent in this process."""
        return parse(self._node_options(NODE), {})

    def _node_options(self, name: str) -> list[str]:
        return [
            "--node", name, "--service", f"127.0.0.1:{self._port}", "--token-file", str(self.token_file),
            "--kubelet-folder", str(self.kubelet.folder), "--pod-resources", str(self.kubelet.pod_resources),
        ]  # fmt: skip

    async def until(self, is_so: Callable[[], Any], what: str) -> None:
        """Wait until something is so of the kubelet."""
        if not await self._changes.until(lambda: bool(is_so())):
            written = self.program.stderr if self.program else ""
            pytest.fail(f"after {PATIENCE_SECONDS} s not: {what}\n{written}")

    async def until_allocatable(self, count: int) -> None:
        """Wait until the kubelet can give so many GPUs to pods."""
        await self.until(lambda: self.kubelet.allocatable(GPU) == count, f"{count} GPUs are allocatable")

    @property
    def devices(self) -> dict[str, str]:
        """The health of each GPU, by its id, as ListAndWatch says."""
        return {each: health for each, (health, _) in self.kubelet.plugins[GPU].lists[-1].items()}

    async def allocate(self, namespace: str, pod: str, **containers: list[str]) -> dict[str, str]:
        """The kubelet gives devices to containers, and PodResources says so; the variable of each container."""
        for container, ids in containers.items():
            self.kubelet.pods[namespace, pod, container] = {GPU: ids}
        given = await deferToThread(self.kubelet.allocate, GPU, *containers.values())
        return {name: each["NVIDIA_VISIBLE_DEVICES"] for name, each in zip(containers, given, strict=True)}

    async def page(self, name: str = NODE) -> str:
        """The metrics of a node; empty while the fleet does not have it."""
        page = await self.service.fetch(f"/nodes/{name}/metrics")
        return page.body.decode() if page.status == 200 else ""

    async def holders(self) -> dict[str, tuple[str, str, str]]:
        """Namespace, pod and container of each GPU that has one, by its UUID, as the page says."""
        found = {}
        for row in re.findall(r"^DCGM_FI_DEV_GPU_UTIL\{(.*)\}", await self.page(), re.MULTILINE):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', row))
            if labels.get("pod"):
                found[labels["UUID"]] = labels["namespace"], labels["pod"], labels["container"]
        return found

    async def until_held(self, wanted: dict[str, tuple[str, str, str]]) -> None:
        """Wait until the page shows just these containers."""

        async def is_so() -> bool:
            return await self.holders() == wanted

        await eventually(is_so, f"the page shows {wanted}")

    async def fault(self, **fields: Any) -> None:
        """Begin a fault at devices of the node."""
        assert (await self.service.fetch("/api/v1/faults", fields)).status == 201

    async def clear(self) -> None:
        """End all faults."""
        for fault in (await self.service.get_json("/api/v1/faults"))["faults"]:
            assert (await self.service.fetch(f"/api/v1/faults/{fault['id']}", method="DELETE")).status == 200

    async def close(self) -> None:
        """End the kubelet and the API server; the programs end with the test."""
        await deferToThread(self.kubelet.stop)
        await self.api.stop()

    def events(self) -> set[str]:
        """The reasons of all Events."""
        return {event["reason"] for event in self.api.items("events")}


def ready_file(folder: Path) -> Any:
    """What the service announces."""
    return json.loads((folder / "ready.json").read_text(encoding="utf-8"))
