"""The web page of a fleet whose nodes come from a cluster: they come and go while it is open."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor

from tests.support.kube.api_server import ClusterApi, node, pod
from tests.support.programs.browser import Browser
from tests.support.programs.page import Stand, no_complaint
from tests.support.programs.processes import StartAsync

pytestmark = pytest.mark.real

CLUSTER = """
version: 1
fleet:
  seed: 7
  tick: 250ms
  pools: [{{name: h100, nodes: cluster, device: h100, devices-per-node: 8, identity: dcgm}}]
kubernetes: {{kubeconfig: {kubeconfig}}}
web: ["127.0.0.1:%(port)d"]
workloads: {{listen: []}}
"""
LABEL = {"fakedev/pool": "h100"}


@pytest_twisted.ensureDeferred
async def test_nodes_come_and_go(start_async: StartAsync, tmp_path: Path, browser: Browser) -> None:
    """The page begins with nothing, shows nodes and pods as they come, and is empty again when they are gone."""
    api = ClusterApi(reactor)
    api.start()
    try:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(api.kubeconfig, encoding="utf-8")
        stand = Stand(start_async, tmp_path, browser, CLUSTER.format(kubeconfig=kubeconfig))
        await stand.serve()
        await stand.open()
        text = "document.body.textContent"
        await browser.until(f"{text}.includes('0no node')")
        api.add(node("a", LABEL))
        api.add(pod("train", "a", {"nvidia.com/gpu": "2"}))
        await browser.until("document.querySelectorAll('.cards .device').length === 8")
        await browser.until(f"{text}.includes('train')")
        api.add(node("b", LABEL))
        await browser.until("document.querySelectorAll('.cards .device').length === 16")
        api.remove("nodes", "a")
        await browser.until(f"document.querySelectorAll('.cards .device').length === 8 && !{text}.includes('train')")
        api.remove("nodes", "b")
        await browser.until("document.querySelectorAll('.cards .device').length === 0")
        await no_complaint(browser)
    finally:
        await api.stop()
