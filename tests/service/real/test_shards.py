"""Shards as processes of their own: their pages together are those of the whole fleet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import pytest_twisted
import yaml

from tests.support.fleet.shards import families
from tests.support.paths import ROOT
from tests.support.programs.asynchronous import AsyncService, at_once, serve
from tests.support.programs.processes import StartAsync, console

pytestmark = pytest.mark.real

FLEET = """
version: 1
fleet:
  seed: 3
  speed: 0
  epoch: 1800000000
  pools:
    - {name: dgx, nodes: 5, device: h100, devices-per-node: 4, identity: dcgm@4.8.2, profile: training}
    - {name: t, nodes: [t-a, t-b], device: t4, devices-per-node: 2, identity: dcgm@4.8.2}
faults:
  - {kind: lost, devices: dgx-1/0, start: 20s, duration: 20s}
  - {kind: xid, code: 31, devices: all, probability: 0.1, every: 10s}
"""
BASE = ", base: [{name: all, devices: all, profile: '20:15:0', pod: p, namespace: n}]"


async def advance(service: AsyncService, seconds: int) -> None:
    """Move the clock, which stands."""
    assert (await service.fetch("/api/v1/clock", {"advance": f"{seconds}s"})).status == 200


@pytest_twisted.ensureDeferred
async def test_processes_together_are_the_whole(start_async: StartAsync, tmp_path: Path) -> None:
    """Each node's page in its shard, and /metrics of all shards by family; also of work that came later."""
    starting = []
    for name, options in {"whole": [], **{str(n): ["--shard", f"{n}/3"] for n in range(3)}}.items():
        folder = tmp_path / name
        folder.mkdir()
        starting.append(serve(start_async, folder, *options, fleet=FLEET, base=BASE))
    services = await at_once(starting)
    whole, *shards = services

    async def page(service: AsyncService, path: str = "/metrics") -> bytes:
        return (await service.fetch(path)).body

    nodes = [target["labels"]["node"] for target in await whole.get_json("/sd")]
    owners = {target["labels"]["node"]: shard for shard in shards for target in await shard.get_json("/sd")}
    assert sorted(owners) == sorted(nodes)
    late = {"name": "late", "devices": ["dgx-*/[1-2]"], "profile": "60:30", "pod": "late-0"}
    for seconds in (25, 30):
        for service in services:
            await advance(service, seconds)
        for node in nodes:
            path = f"/nodes/{node}/metrics"
            assert await page(owners[node], path) == await page(whole, path), (node, seconds)
        assert families([await page(shard) for shard in shards]) == families([await page(whole)])
        for service in services:
            has_dgx = service is whole or any(node.startswith("dgx") and owners[node] is service for node in nodes)
            assert (await service.fetch("/api/v1/workloads", late)).status == (201 if has_dgx else 404)
    stranger = next(shard for shard in shards if shard is not owners["dgx-0"])
    assert (await stranger.fetch("/nodes/dgx-0/metrics")).status == 404
    refused = await stranger.fetch("/api/v1/workloads", {**late, "devices": ["dgx-0/1"]})
    number = shards.index(owners["dgx-0"])
    said = f"node 'dgx-0' is in shard {number} of 3, and this is shard {shards.index(stranger)}/3"
    assert json.loads(refused.body)["error"]["message"].endswith(said)
    assert (await stranger.fetch(f"/sd?shard={number}/3")).status == 400
    half = {each["labels"]["node"] for each in await whole.get_json("/sd?shard=0/2")}
    assert 0 < len(half) < len(nodes)


@pytest_twisted.ensureDeferred
async def test_the_manifest(start_async: StartAsync, tmp_path: Path) -> None:
    """Its configuration is good in each of its pods, and the pods are as many as the shards."""
    parts = {each["kind"]: each for each in yaml.safe_load_all((ROOT / "etc/kubernetes/shards.yaml").read_text())}
    config = tmp_path / "fakedev.yaml"
    config.write_text(parts["ConfigMap"]["data"]["fakedev.yaml"])
    spec = parts["StatefulSet"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    shard = container["command"][container["command"].index("--shard") + 1]
    assert shard == f"hostname/{spec['replicas']}"
    assert spec["serviceName"] == parts["Service"]["metadata"]["name"] == parts["StatefulSet"]["metadata"]["name"]
    for number in range(spec["replicas"]):
        arguments = [shard.replace("hostname", str(number)) if each == shard else each for each in container["command"]]
        command = [*console("fakedev"), *arguments[1:3], str(config), *arguments[4:], "--check"]
        checked = start_async(command, folder=tmp_path)
        assert await checked.wait() == 0, checked.stderr
