"""A node with a kubelet, end to end: ``fakedev serve``, fakedev-node, the kubelet's half, and an API server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from tests.support.kube.api_server import ClusterApi, node, pod
from tests.support.kube.kubelet import Kubelet
from tests.support.programs.asynchronous import AsyncService, eventually, ready
from tests.support.programs.ports import free_port
from tests.support.programs.processes import Changes, StartAsync, console

pytestmark = [pytest.mark.real, pytest.mark.slow]

GPU, NODE, TOKEN = "nvidia.com/gpu", "worker", "secret-of-the-tests"
CONFIGURATION = """
version: 1
fleet:
  seed: 7
  tick: 100ms
  pools: [{{name: h100, nodes: cluster, device: h100, devices-per-node: 8, identity: dcgm@4.8.2}}]
web: ["127.0.0.1:0"]
workloads: {{listen: []}}
kubernetes: {{kubeconfig: kubeconfig, listen: [{{listen: "127.0.0.1:{port}", tokens: ["{token}"]}}]}}
"""


async def page(service: AsyncService) -> str:
    """The metrics of the node; empty while the fleet does not have it."""
    answer = await service.fetch(f"/nodes/{NODE}/metrics")
    return answer.body.decode() if answer.status == 200 else ""


async def until_held(service: AsyncService, wanted: dict[str, str]) -> None:
    """Wait until the page shows just these: namespace, pod and container of each GPU that has one, by its UUID."""

    async def is_so() -> bool:
        found = {}
        for row in re.findall(r"^DCGM_FI_DEV_GPU_UTIL\{(.*)\}", await page(service), re.MULTILINE):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', row))
            if labels.get("pod"):
                found[labels["UUID"]] = f"{labels['namespace']}/{labels['pod']}/{labels['container']}"
        return found == wanted

    await eventually(is_so, f"the page shows {wanted}")


@pytest_twisted.ensureDeferred
async def test_from_the_label_to_the_metrics_of_a_pod(tmp_path: Path, start_async: StartAsync) -> None:
    """The plugin offers the UUIDs of the page; a pod is shown on the devices that the kubelet gave each container.

    A fault lowers what the kubelet can give, and Events at the node tell of it.
    """
    changes = Changes()
    kubelet = Kubelet(tmp_path / "kubelet", lambda: reactor.callFromThread(changes.changed))
    api = ClusterApi(reactor)
    api.start()
    api.add(node(NODE, {"fakedev/pool": "h100"}, has_kubelet=True))
    port, file, token = free_port(), tmp_path / "ready.json", tmp_path / "token"
    token.write_text(TOKEN, encoding="utf-8")
    (tmp_path / "kubeconfig").write_text(api.kubeconfig, encoding="utf-8")
    (tmp_path / "fakedev.yaml").write_text(CONFIGURATION.format(port=port, token=TOKEN), encoding="utf-8")

    async def until(is_so: Callable[[], Any], what: str) -> None:
        assert await changes.until(lambda: bool(is_so())), what

    try:
        await deferToThread(kubelet.start)
        options = ["--config", str(tmp_path / "fakedev.yaml"), "--ready-file", str(file)]
        service = await ready(start_async([*console("fakedev"), "serve", *options], folder=tmp_path), file)
        await eventually(lambda: page(service), "the fleet has the node")
        start_async([
            *console("fakedev-node"), "--node", NODE, "--service", f"127.0.0.1:{port}", "--token-file", str(token),
            "--kubelet-folder", str(kubelet.folder), "--pod-resources", str(kubelet.pod_resources),
        ])  # fmt: skip
        await until(lambda: kubelet.allocatable(GPU) == 8, "8 GPUs are allocatable")
        assert json.loads(file.read_text(encoding="utf-8"))["nodes"] == [f"127.0.0.1:{port}"]
        shown = re.findall(r'^DCGM_FI_DEV_GPU_UTIL\{.*UUID="([^"]+)"', await page(service), re.MULTILINE)
        assert {*kubelet.plugins[GPU].lists[-1]} == {*shown}
        item = api.get("nodes", NODE)
        assert item["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
        assert GPU not in item["status"]["capacity"]

        train = pod("train", NODE, {GPU: "2"}, namespace="ml")
        train["spec"]["containers"].append({**train["spec"]["containers"][0], "name": "second"})
        main, second = [shown[6], shown[1]], [shown[3]]
        kubelet.pods |= {("ml", "train", "main"): {GPU: main}, ("ml", "train", "second"): {GPU: second}}
        given = await deferToThread(kubelet.allocate, GPU, main, second)
        # In the order of boards.
        assert [each["NVIDIA_VISIBLE_DEVICES"] for each in given] == [f"{shown[1]},{shown[6]}", shown[3]]
        api.add(train)
        in_main, in_second = "ml/train/main", "ml/train/second"
        await until_held(service, {shown[1]: in_main, shown[6]: in_main, shown[3]: in_second})

        fault = {"kind": "xid", "code": 79, "devices": [f"{NODE}/3"]}
        injected = await service.fetch("/api/v1/faults", fault)
        await until(lambda: kubelet.allocatable(GPU) == 7, "7 GPUs are allocatable")
        assert kubelet.plugins[GPU].lists[-1][shown[3]][0] == "Unhealthy"
        assert (await service.fetch(injected.headers["location"], method="DELETE")).status == 200
        await until(lambda: kubelet.allocatable(GPU) == 8, "8 GPUs are allocatable again")
        reasons = {"DeviceUnhealthy", "DeviceHealthy"}
        await eventually(lambda: reasons <= {event["reason"] for event in api.items("events")}, "Events at the node")

        kubelet.pods.clear()
        api.remove("pods", "train", "ml")
        await until_held(service, {})
    finally:
        await deferToThread(kubelet.stop)
        await api.stop()
