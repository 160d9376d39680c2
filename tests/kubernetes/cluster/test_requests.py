"""The service makes no request that the Roles of the manifests forbid, whatever happens to nodes and pods."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor

from fakedev.kubernetes.client.api_paths import PERMISSIONS, Need
from tests.support.kube.api_server import ClusterApi
from tests.support.kube.manifests import MANIFESTS, objects_of, printed_by_script
from tests.support.kube.permissions import not_allowed
from tests.support.programs.asynchronous import eventually, ready
from tests.support.programs.processes import StartAsync, console

pytestmark = [pytest.mark.real, pytest.mark.slow]

CONFIGURATION = """
version: 1
fleet: {{pools: [{{name: dgx, nodes: cluster, device: h100, devices-per-node: 8, identity: dcgm@4.8.2}}]}}
kubernetes: {{kubeconfig: "{kubeconfig}", namespace: default, pods: {{struck: evict}}, resources: {resources}}}
web: [{{listen: "127.0.0.1:0"}}]
workloads: {{listen: []}}
"""
POD = {
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {"name": "struck", "namespace": "default", "annotations": {"fakedev/profile": "not a profile"}},
    "spec": {
        "nodeName": "kwok-dgx-0", "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "8"}}}],
    },
    "status": {"phase": "Running"},
}  # fmt: skip


@pytest_twisted.async_yield_fixture
async def api() -> AsyncIterator[ClusterApi]:
    """An API server with two nodes of the pool."""
    cluster = ClusterApi(reactor)
    cluster.start()
    for item in objects_of(printed_by_script(MANIFESTS / "kwok-nodes.sh", "2", "dgx")):
        cluster.add(item)
    yield cluster
    await cluster.stop()


@pytest.mark.parametrize(
    ("resources", "needs"), [("device-plugin", (Need.ALWAYS,)), ("both", (Need.ALWAYS, Need.DRA))]
)
@pytest_twisted.ensureDeferred
async def test_requests(
    api: ClusterApi, start_async: StartAsync, tmp_path: Path, resources: str, needs: tuple[Need, ...]
) -> None:
    """Nodes that get devices, a pod with an annotation that cannot be read, which is evicted, a node that goes."""
    (tmp_path / "kubeconfig").write_text(api.kubeconfig)
    text = CONFIGURATION.format(kubeconfig=tmp_path / "kubeconfig", resources=resources)
    (tmp_path / "fakedev.yaml").write_text(text)
    options = ["--config", str(tmp_path / "fakedev.yaml"), "--ready-file", str(tmp_path / "ready.json")]
    program = start_async([*console("fakedev"), "serve", *options], folder=tmp_path)
    service = await ready(program, tmp_path / "ready.json")

    async def made(verb: str, resource: str) -> None:
        await eventually(lambda: any(request[:2] == (verb, resource) for request in api.requests), f"{verb} {resource}")

    async def is_there() -> bool:
        return (await service.fetch("/nodes/kwok-dgx-0/metrics")).status == 200

    async def is_shown() -> bool:
        return b'pod="struck"' in (await service.fetch("/nodes/kwok-dgx-0/metrics")).body

    await made("patch", "nodes/status")
    await eventually(is_there, "the fleet has the node")
    api.add(POD)
    await made("create", "events")
    await eventually(is_shown, "the fleet has the pod")
    assert (await service.fetch("/api/v1/faults", {"kind": "lost", "devices": ["kwok-dgx-0/3"]})).status == 201
    await made("create", "pods/eviction")
    if Need.DRA in needs:
        await made("create", "resourceslices")
    api.remove("nodes", "kwok-dgx-1")
    if Need.DRA in needs:
        await made("delete", "resourceslices")
    assert await service.program.stop() == 0
    assert not_allowed(api.requests, *needs) == []
    watched = {resource for verb, resource, _ in api.requests if verb == "watch"}
    assert watched == {each.resource for each in PERMISSIONS if each.need in needs and "watch" in each.verbs}
