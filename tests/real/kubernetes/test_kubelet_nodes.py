"""A node with a kubelet, end to end: ``fakedev serve``, fakedev-node, the kubelet's half, and an API server."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet.threads import deferToThread

from fakedev.node.agent import Agent
from fakedev.node.last_view import KEEP_SECONDS
from tests.support.kube.api_server import node, pod
from tests.support.kubelet_cluster import GPU, NODE, TOKEN, KubeletCluster, ready_file
from tests.support.programs.asynchronous import eventually
from tests.support.programs.processes import StartAsync

pytestmark = [pytest.mark.real, pytest.mark.slow]

DRIVER = "gpu.nvidia.com"


@pytest_twisted.async_yield_fixture
async def cluster(tmp_path: Path, start_async: StartAsync) -> AsyncIterator[KubeletCluster]:
    """Nothing is started yet."""
    made = KubeletCluster(tmp_path, start_async)
    yield made
    await made.close()


@pytest_twisted.ensureDeferred
async def test_from_the_label_to_the_metrics_of_a_pod(cluster: KubeletCluster, tmp_path: Path) -> None:
    """The plugin offers the UUIDs of the page; a pod is shown on the devices that the kubelet gave each container."""
    await cluster.running()
    assert ready_file(tmp_path)["nodes"] == [f"127.0.0.1:{cluster.node_settings().service.port}"]
    shown = re.findall(r'^DCGM_FI_DEV_GPU_UTIL\{.*UUID="([^"]+)"', await cluster.page(), re.MULTILINE)
    assert {*cluster.devices} == {*shown}
    item = cluster.api.get("nodes", NODE)
    assert item["metadata"]["labels"]["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert GPU not in item["status"]["capacity"]

    train = pod("train", NODE, {GPU: "2"}, namespace="ml")
    train["spec"]["containers"].append({**train["spec"]["containers"][0], "name": "second"})
    given = await cluster.allocate("ml", "train", main=[shown[6], shown[1]], second=[shown[3]])
    assert given == {"main": f"{shown[6]},{shown[1]}", "second": shown[3]}
    cluster.api.add(train)
    main, second = ("ml", "train", "main"), ("ml", "train", "second")
    await cluster.until_held({shown[1]: main, shown[6]: main, shown[3]: second})

    cluster.kubelet.pods.clear()
    cluster.api.remove("pods", "train", "ml")
    await cluster.until_held({})


@pytest_twisted.ensureDeferred
async def test_a_fault(cluster: KubeletCluster) -> None:
    """The device is Unhealthy for the kubelet while the fault lasts; Events at the node tell both."""
    await cluster.running()
    (struck,) = [each for number, each in enumerate(cluster.devices) if number == 3]
    await cluster.fault(kind="xid", code=79, devices=[f"{NODE}/3"])
    await cluster.until_allocatable(7)
    assert cluster.devices[struck] == "Unhealthy"
    await cluster.clear()
    await cluster.until_allocatable(8)
    await eventually(lambda: {"DeviceUnhealthy", "DeviceHealthy"} <= cluster.events(), "Events at the node")


@pytest.mark.parametrize("kind", ["plugin-down", "kubelet-restart"])
@pytest_twisted.ensureDeferred
async def test_the_plugin_is_down(cluster: KubeletCluster, kind: str) -> None:
    """Its socket is gone, and it registers again afterwards; what a pod has stays."""
    await cluster.running()
    (first, *_) = cluster.devices
    await cluster.allocate("default", "train", main=[first])
    cluster.api.add(pod("train", NODE, {GPU: "1"}))
    await cluster.until_held({first: ("default", "train", "main")})
    await cluster.fault(kind=kind, devices=[f"{NODE}/*"])
    await cluster.until_allocatable(0)
    assert await cluster.holders() == {first: ("default", "train", "main")}
    await cluster.clear()
    await cluster.until_allocatable(8)
    assert cluster.kubelet.registrations == [GPU, GPU]


@pytest_twisted.ensureDeferred
async def test_the_kubelet_is_restarted(cluster: KubeletCluster) -> None:
    """fakedev-node registers with the new one; the service counts its registration."""
    await cluster.running()
    await deferToThread(cluster.kubelet.restart)
    await cluster.until_allocatable(8)
    assert cluster.kubelet.registrations == [GPU, GPU]

    async def is_registered() -> bool:
        return b"fakedev_kubernetes_registered 1.0" in (await cluster.service.fetch("/-/metrics")).body

    await eventually(is_registered, "the node is registered")


@pytest_twisted.ensureDeferred
async def test_the_service_is_gone_for_a_minute(cluster: KubeletCluster) -> None:
    """The devices keep their health for 60 s, then they are Unhealthy; the service makes them healthy again."""
    await deferToThread(cluster.kubelet.start)
    await cluster.serve()
    later_seconds = 0.0
    agent = Agent(cluster.node_settings(), lambda: time.monotonic() + later_seconds)
    running = deferToThread(agent.run)
    try:
        await cluster.until_allocatable(8)
        (first, *_) = cluster.devices
        await cluster.allocate("default", "train", main=[first])
        cluster.api.add(pod("train", NODE, {GPU: "1"}))
        await cluster.until_held({first: ("default", "train", "main")})
        assert await cluster.service.program.stop(signal.SIGTERM) == 0
        lists = len(cluster.kubelet.plugins[GPU].lists)
        assert cluster.kubelet.allocatable(GPU) == 8
        later_seconds = KEEP_SECONDS
        await cluster.until_allocatable(0)
        assert len(cluster.kubelet.plugins[GPU].lists) == lists + 1
        assert {*cluster.devices.values()} == {"Unhealthy"}
        await cluster.serve()
        await cluster.until_allocatable(8)
        # What the kubelet gave is reported to the new service.
        await cluster.until_held({first: ("default", "train", "main")})
    finally:
        agent.stop()
        await running


@pytest_twisted.ensureDeferred
async def test_a_wrong_token(cluster: KubeletCluster) -> None:
    """Nothing is registered; the file is read anew, and the token is in no log."""
    cluster.token_file.write_text("wrong-one")
    await deferToThread(cluster.kubelet.start)
    await cluster.serve()
    program = cluster.start_node()
    await program.wait_for_text("it refuses: denied: the token is wrong")
    assert cluster.kubelet.registrations == []
    cluster.token_file.write_text(TOKEN)
    await cluster.until_allocatable(8)
    for written in (program.stderr, cluster.service.program.stderr):
        assert TOKEN not in written
        assert "wrong-one" not in written


@pytest_twisted.ensureDeferred
async def test_a_node_that_is_not_simulated(cluster: KubeletCluster) -> None:
    """fakedev-node says why, and waits for the label."""
    cluster.api.add(node("other", has_kubelet=True))
    await deferToThread(cluster.kubelet.start)
    await cluster.serve()
    program = cluster.start_node(name="other")
    line = await program.wait_for_text("it refuses")
    assert "unknown-name: node 'other' is not simulated: no node of the cluster with this name has the label" in line
    assert cluster.kubelet.registrations == []
    cluster.api.modify("nodes", "other", {"metadata": {"labels": {"fakedev/pool": "h100"}}})
    await cluster.until_allocatable(8)
    assert "nvidia" not in str(cluster.api.get("nodes", "other")["status"])


@pytest_twisted.ensureDeferred
async def test_claims(tmp_path: Path, start_async: StartAsync) -> None:
    """With DRA: the kubelet finds the driver, claims are prepared as allocated, and the page shows their labels."""
    cluster = KubeletCluster(tmp_path, start_async, more=", resources: dra")
    try:
        await deferToThread(cluster.kubelet.start)
        registry = cluster.kubelet.root / "plugins_registry"
        registry.mkdir()
        await cluster.serve()
        slices = await cluster.api.when("resourceslices", lambda each: each["spec"]["nodeName"] == NODE)
        names = [device["name"] for device in slices["spec"]["devices"]]
        assert names == [f"gpu-{number}" for number in range(8)]
        program = cluster.start_node("--resources", "dra")
        await program.wait_for_file(registry / f"{DRIVER}-reg.sock")
        endpoint = await deferToThread(cluster.kubelet.find_dra_plugin, DRIVER)

        train = pod("train", NODE)
        train["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "train-gpu"}]
        train["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
        uid = cluster.api.add(train)["metadata"]["uid"]
        claim = cluster.api.add({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": "train-gpu", "namespace": "default"}, "spec": {},
        })["metadata"]["uid"]  # fmt: skip
        # The kubelet asks before the service has seen the allocation, and again.
        devices, error = await deferToThread(cluster.kubelet.prepare, endpoint, "default", "train-gpu", claim)
        assert (devices, "is allocated on worker" in error) == ([], True)
        result = {"request": "gpu", "driver": DRIVER, "pool": NODE, "device": "gpu-5"}
        reserved = [{"resource": "pods", "name": "train", "uid": uid}]
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
        cluster.api.modify("resourceclaims", "train-gpu", {"status": status}, "default")

        async def prepared() -> bool:
            found = await deferToThread(cluster.kubelet.prepare, endpoint, "default", "train-gpu", claim)
            return found == ([("gpu", NODE, "gpu-5")], "")

        await eventually(prepared, "the claim is prepared")
        # PodResources shows the claim, too.
        cluster.kubelet.claims["default", "train", "main"] = ("train-gpu", DRIVER, NODE, ["gpu-5"])

        async def is_shown() -> bool:
            rows = re.findall(r'^DCGM_FI_DEV_GPU_UTIL\{gpu="5".*pod="train".*\}', await cluster.page(), re.MULTILINE)
            return any('dra_claim_name="train-gpu"' in row and 'dra_device_name="gpu-5"' in row for row in rows)

        await eventually(is_shown, "the page shows the claim")
        assert await deferToThread(cluster.kubelet.unprepare, endpoint, "default", "train-gpu", claim) == {claim: ""}
        assert cluster.events() == set()
    finally:
        await cluster.close()
