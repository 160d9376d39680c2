"""Nodes with kubelets, and the manifests as they are: run where mock-kubelets.yaml was applied (the workflow does so).

The worker nodes need the label ``fakedev/pool=dgx``. Everything is asked through the API server.
"""

from __future__ import annotations

import re

import pytest
import pytest_twisted

from tests.support.kube.cluster import Cluster, node_path
from tests.support.programs.asynchronous import eventually

pytestmark = [pytest.mark.real, pytest.mark.slow]

GPU = "nvidia.com/gpu"
#: The pages of the service, through the API server.
PAGES = "/api/v1/namespaces/fakedev/services/fakedev:metrics/proxy"


async def simulated_node(cluster: Cluster) -> str:
    """A node with fakedev-node; without one the test is skipped."""
    if await cluster.is_gone("/apis/apps/v1/namespaces/fakedev/daemonsets/fakedev-node"):
        pytest.skip("mock-kubelets.yaml is not applied to the cluster")
    nodes = await cluster.get("/api/v1/nodes?labelSelector=fakedev/pool%3Ddgx,type%21%3Dkwok")
    assert nodes["items"], "no node with a kubelet has the label fakedev/pool=dgx"
    name = str(nodes["items"][0]["metadata"]["name"])
    await cluster.until(node_path(name), lambda node: allocatable(node) == 8, "eight GPUs can be allocated")
    return name


def allocatable(node: dict[str, dict[str, dict[str, str]]]) -> int:
    """How many GPUs a node can give to pods."""
    return int(node["status"]["allocatable"].get(GPU, "0"))


async def shown(cluster: Cluster, node: str, pod: str) -> set[str]:
    """The UUIDs that the page of a node shows with the name of a pod."""
    page = await cluster.kubectl("get", "--raw", f"{PAGES}/nodes/{node}/metrics")
    return set(re.findall(rf'^DCGM_FI_DEV_GPU_UTIL{{.*UUID="([^"]+)".*pod="{pod}"', page, re.MULTILINE))


@pytest_twisted.ensureDeferred
async def test_a_pod_has_the_devices_that_the_kubelet_gave_it(real_cluster: Cluster) -> None:
    node = await simulated_node(real_cluster)
    await real_cluster.add_pod("fakedev-test-kubelet", node, 2)
    given = await real_cluster.kubectl("exec", "fakedev-test-kubelet", "--", "printenv", "NVIDIA_VISIBLE_DEVICES")
    wanted = set(given.strip().split(","))
    assert len(wanted) == 2

    async def is_shown() -> bool:
        return await shown(real_cluster, node, "fakedev-test-kubelet") == wanted

    await eventually(is_shown, f"the page shows the pod on {wanted}")


@pytest_twisted.ensureDeferred
async def test_a_fault_reaches_the_kubelet(real_cluster: Cluster) -> None:
    """The kubelet lowers allocatable, and raises it again when the fault is cleared."""
    node = await simulated_node(real_cluster)
    fakedev = ("--namespace", "fakedev", "exec", "deployment/fakedev", "--", "fakedev")
    await real_cluster.kubectl(*fakedev, "fault", "xid", "code=79", f"devices={node}/0")
    try:
        await real_cluster.until(node_path(node), lambda item: allocatable(item) == 7, "a GPU is unhealthy")
    finally:
        await real_cluster.kubectl(*fakedev, "clear", "all")
    await real_cluster.until(node_path(node), lambda item: allocatable(item) == 8, "the GPU is healthy again")
