"""Nodes without a kubelet (KWOK): devices, pods, faults, and that nothing is left behind."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted

from tests.support.kube.cluster import Cluster, node_path
from tests.support.programs.asynchronous import AsyncService, eventually, ready
from tests.support.programs.processes import StartAsync, console, run

pytestmark = [pytest.mark.real, pytest.mark.slow]

GPU, COUNT = "nvidia.com/gpu", "nvidia.com/gpu.count"
CONFIGURATION = """
version: 1
fleet: {pools: [{name: fakedev-test, nodes: cluster, device: h100, devices-per-node: 8, identity: dcgm@4.8.2}]}
kubernetes: {kubeconfig: "KUBECONFIG", namespace: default, nodes: {label: fakedev/pool}, pods: {utilization: "80-100"}}
web: [{listen: "127.0.0.1:0"}]
workloads: {listen: []}
"""


class Mock:
    """A fakedev beside the cluster, as at home."""

    def __init__(
        self, start_async: StartAsync, folder: Path, cluster: Cluster, configuration: str = CONFIGURATION
    ) -> None:  # fmt: skip
        self._start_async = start_async
        self._folder = folder
        self._cluster = cluster
        self._options = ["--config", str(folder / "fakedev.yaml")]
        text = configuration.replace("KUBECONFIG", str(cluster.kubeconfig))
        (folder / "fakedev.yaml").write_text(text, encoding="utf-8")

    async def serve(self) -> AsyncService:
        """Start it."""
        file = self._folder / "ready.json"
        command = [*console("fakedev"), "serve", *self._options, "--ready-file", str(file)]
        return await ready(self._start_async(command, folder=self._folder), file)

    async def clean(self) -> None:
        """Remove all that it wrote, by ``fakedev kube clean``."""
        kubeconfig = str(self._cluster.kubeconfig)
        done = await run(self._start_async, *console("fakedev"), "kube", "clean", "--kubeconfig", kubeconfig)
        assert done.exit_code == 0, done.stderr


@pytest.fixture
def mock(start_async: StartAsync, tmp_path: Path, cluster: Cluster) -> Mock:
    """It is not started yet."""
    return Mock(start_async, tmp_path, cluster)


def gpus(which: str, count: int) -> Callable[[Any], bool]:
    """Whether a node has so many GPUs."""
    return lambda node: node["status"].get(which, {}).get(GPU) == str(count)


async def rows_of(service: AsyncService, node: str, pod: str) -> set[str]:
    """The UUIDs of the devices that the page of a node shows with the name of a pod."""
    page = (await service.fetch(f"/nodes/{node}/metrics")).body.decode()
    rows = [row for row in page.splitlines() if row.startswith("DCGM_FI_DEV_GPU_UTIL{") and f'pod="{pod}"' in row]
    assert all('namespace="default"' in row and 'container="main"' in row for row in rows)
    return {found[1] for row in rows if (found := re.search(r'UUID="([^"]+)"', row))}


async def has_page(service: AsyncService, node: str) -> bool:
    """Whether the fleet has a node."""
    status = (await service.fetch(f"/nodes/{node}/metrics")).status
    assert status in (200, 404)
    return status == 200


@pytest_twisted.ensureDeferred
async def test_a_node_gets_devices_and_labels(cluster: Cluster, mock: Mock) -> None:
    """A node with the label of a pool, before and after the start; another node is left alone."""
    first, other = await cluster.add_node("fakedev-test"), await cluster.add_node("of-somebody-else")
    await mock.serve()
    for name in (first, await cluster.add_node("fakedev-test")):
        node = await cluster.until(
            node_path(name), lambda node: gpus("capacity", 8)(node) and COUNT in node["metadata"]["labels"],
            f"{name} has eight GPUs and labels",
        )  # fmt: skip
        assert node["status"]["allocatable"][GPU] == "8"
        labels = node["metadata"]["labels"]
        assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
        assert (labels[COUNT], labels["nvidia.com/gpu.present"]) == ("8", "true")
    untouched = await cluster.get(node_path(other))
    assert GPU not in untouched["status"]["capacity"]
    assert not [label for label in untouched["metadata"]["labels"] if label.startswith("nvidia.com/")]


@pytest_twisted.ensureDeferred
async def test_the_metrics_of_a_pod(cluster: Cluster, mock: Mock) -> None:
    """Its name is on as many devices as it asked for, other devices than another pod's, until it is gone."""
    node = await cluster.add_node("fakedev-test")
    service = await mock.serve()
    await cluster.until(node_path(node), gpus("allocatable", 8), "the GPUs are there")
    path = await cluster.add_pod("fakedev-test-two", node, 2, {"run.ai/simulated-gpu-utilization": "60"})
    await cluster.add_pod("fakedev-test-one", node, 1)

    async def both() -> bool:
        two, one = [await rows_of(service, node, f"fakedev-test-{count}") for count in ("two", "one")]
        return len(two) == 2 and len(one) == 1 and not two & one

    await eventually(both, "both pods are on the page")
    await cluster.delete(path)

    async def gone() -> bool:
        return not await rows_of(service, node, "fakedev-test-two")

    await eventually(gone, "the pod has left the page")


@pytest_twisted.ensureDeferred
async def test_a_fault(cluster: Cluster, mock: Mock) -> None:
    """It lowers allocatable and not capacity, with an event at the node; cleared, all devices are there again."""
    node = await cluster.add_node("fakedev-test")
    service = await mock.serve()
    await cluster.until(node_path(node), gpus("allocatable", 8), "the GPUs are there")
    await eventually(lambda: has_page(service, node), "the node has a page")
    injected = await service.fetch("/api/v1/faults", {"kind": "xid", "code": 79, "devices": [f"{node}/3"]})
    assert injected.status == 201, injected
    failed = await cluster.until(node_path(node), gpus("allocatable", 7), "a GPU is unhealthy")
    assert failed["status"]["capacity"][GPU] == "8"
    told = await eventually(lambda: cluster.events_of(node), "there is an event at the node")
    assert any("79" in each["message"] for each in told)
    assert (await service.fetch(injected.headers["location"], method="DELETE")).status == 200
    await cluster.until(node_path(node), gpus("allocatable", 8), "the GPU is healthy again")


@pytest_twisted.ensureDeferred
async def test_a_node_that_is_removed(cluster: Cluster, mock: Mock) -> None:
    node = await cluster.add_node("fakedev-test")
    service = await mock.serve()

    async def is_gone() -> bool:
        return not await has_page(service, node)

    await eventually(lambda: has_page(service, node), "the node has a page")
    await cluster.delete(node_path(node))
    await eventually(is_gone, "the node has no page")


@pytest_twisted.ensureDeferred
async def test_clean_removes_all(cluster: Cluster, mock: Mock) -> None:
    """A stop removes nothing; ``fakedev kube clean`` removes capacity, labels and annotations, and only those."""
    node = await cluster.add_node("fakedev-test", {"example.org/mine": "kept"})
    before = await cluster.get(node_path(node))
    service = await mock.serve()
    await cluster.until(node_path(node), gpus("capacity", 8), "the GPUs are there")
    assert await service.program.stop(signal.SIGTERM) == 0
    assert gpus("capacity", 8)(await cluster.get(node_path(node)))
    await mock.clean()
    after = await cluster.get(node_path(node))
    assert GPU not in {**after["status"]["capacity"], **after["status"]["allocatable"]}
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert not [name for name in after["metadata"]["annotations"] if name.startswith("fakedev/")]
