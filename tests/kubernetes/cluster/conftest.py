"""The clusters: in memory, a real API server (KUBEBUILDER_ASSETS), and a whole cluster (FAKEDEV_TEST_KUBECONFIG)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor

from tests.kubernetes.cluster.real_api_server import RealApiServer
from tests.support.kube.api_server import ClusterApi
from tests.support.kube.cluster import KUBECONFIG, Cluster
from tests.support.kube.control_plane import ASSETS, assets_folder
from tests.support.programs.processes import StartAsync


def real_kubeconfig() -> Path:
    """The file of the cluster; without one the test is skipped, also in continuous integration."""
    if not os.environ.get(KUBECONFIG):
        pytest.skip(f"{KUBECONFIG} names no cluster")
    return Path(os.environ[KUBECONFIG]).absolute()


@asynccontextmanager
async def memory(start_async: StartAsync, folder: Path) -> AsyncIterator[Cluster]:
    """The API server of the tests, on a port of the loopback interface."""
    api = ClusterApi(reactor)
    api.start()
    file = folder / "kubeconfig"
    file.write_text(api.kubeconfig, encoding="utf-8")
    try:
        yield Cluster(start_async, folder, file, is_real=False)
    finally:
        await api.stop()


@pytest_twisted.async_yield_fixture
async def real_cluster(start_async: StartAsync, tmp_path: Path) -> AsyncIterator[Cluster]:
    """The cluster of the variable."""
    cluster = Cluster(start_async, tmp_path, real_kubeconfig(), is_real=True)
    yield cluster
    await cluster.clean_up()


@pytest_twisted.async_yield_fixture(params=["memory", "assets", "kubeconfig"])
async def cluster(request: pytest.FixtureRequest, start_async: StartAsync, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Each of the three."""
    if request.param == "assets":
        assets = assets_folder()
        if assets is None:
            pytest.skip(f"{ASSETS} names no folder with etcd and kube-apiserver")
        server = RealApiServer(start_async, assets, tmp_path)
        await server.start()
        yield Cluster(start_async, tmp_path, server.kubeconfig, is_real=False)
        return
    if request.param == "kubeconfig":
        real = Cluster(start_async, tmp_path, real_kubeconfig(), is_real=True)
        yield real
        await real.clean_up()
        return
    async with memory(start_async, tmp_path) as in_memory:
        yield in_memory


@pytest_twisted.async_yield_fixture
async def memory_cluster(start_async: StartAsync, tmp_path: Path) -> AsyncIterator[Cluster]:
    """The API server of the tests alone."""
    async with memory(start_async, tmp_path) as in_memory:
        yield in_memory
