"""`fakedev serve --topology FILE` as doc/switching.md shows it, with a file that changes while it runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import pytest_twisted
from twisted.internet import reactor

from tests.support.kube.api_server import ClusterApi, node
from tests.support.kube.manifests import MANIFESTS, objects_of
from tests.support.paths import ROOT
from tests.support.programs.asynchronous import AsyncService, eventually, ready
from tests.support.programs.processes import StartAsync, clean_environment, console

pytestmark = pytest.mark.real

#: The addresses are free ones; the test runs beside others.
FREE = ("--set", "web=['127.0.0.1:0']", "--set", "workloads.listen=[]")


async def utilization(service: AsyncService, uuid: str) -> str:
    """What a GPU shows; empty while there is no such GPU."""
    page = (await service.fetch("/metrics")).body.decode()
    rows = [row for row in page.splitlines() if row.startswith("DCGM_FI_DEV_GPU_UTIL{") and uuid in row]
    return rows[0].rsplit(" ", 1)[1] if rows else ""


@pytest_twisted.ensureDeferred
async def test_the_page(start_async: StartAsync, tmp_path: Path) -> None:
    """The example serves the GPUs that it names; a change of the file shows without a restart; a mistake does not."""
    page = (ROOT / "doc" / "switching.md").read_text(encoding="utf-8")
    example = page.split("```yaml\n")[1].split("```")[0]
    (command,) = [line.split("$ .venv/bin/fakedev ")[1] for line in page.splitlines() if "$ .venv/bin/fakedev" in line]
    path, file = tmp_path / "topology.yml", tmp_path / "ready.json"
    path.write_text(example)
    program = start_async(
        [*console("fakedev"), *command.split(), *FREE, "--ready-file", str(file)], folder=tmp_path
    )
    service = await ready(program, file)
    uuid = "GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1"
    assert await utilization(service, uuid) == "10"
    assert (await service.get_json("/topology/nodes/node-a"))["gpuProduct"] == "Tesla-K80"

    async def shows_55() -> bool:
        return await utilization(service, uuid) == "55"

    path.write_text(example.replace("utilization: 10", "utilization: 55"))
    await eventually(shows_55, "the changed file shows")
    path.write_text(example.replace("gpuCount: 8", "gpuCount: many"))
    said = f"{path}:6: nodePools.a100.gpuCount: must be a whole number"
    await eventually(lambda: said in program.stderr, "the mistake is in the log")
    assert await utilization(service, uuid) == "55"


def mount(folder: Path, version: int, text: str) -> None:
    """What the kubelet does with a ConfigMap: a folder of its own, and a link that is replaced by renaming."""
    (folder / f"..{version}").mkdir(parents=True)
    (folder / f"..{version}" / "topology.yml").write_text(text, encoding="utf-8")
    os.symlink(f"..{version}", folder / "..data_tmp")
    os.rename(folder / "..data_tmp", folder / "..data")
    if version == 1:
        os.symlink("..data/topology.yml", folder / "topology.yml")


@pytest_twisted.ensureDeferred
async def test_a_mounted_config_map(start_async: StartAsync, tmp_path: Path) -> None:
    """As the manifests mount it: the users' ConfigMap has the pools, and a node follows it as it changes."""
    (item, _) = objects_of((MANIFESTS / "components" / "fake-gpu-operator" / "topology.yaml").read_text())
    (configuration,) = objects_of((MANIFESTS / "base" / "configuration.yaml").read_text())
    text = configuration["data"]["fakedev.yaml"]
    (tmp_path / "fakedev.yaml").write_text(text.replace("/run/fakedev", str(tmp_path)).replace("*:9400", "127.0.0.1:0"))
    mount(tmp_path / "mounted", 1, item["data"]["topology.yml"])
    api = ClusterApi(reactor)
    api.start()
    try:
        (tmp_path / "kubeconfig").write_text(api.kubeconfig)
        api.add(node("a", {"run.ai/simulated-gpu-node-pool": "default"}))
        environment = clean_environment(
            FAKEDEV__TOPOLOGY=str(tmp_path / "mounted" / "topology.yml"),
            FAKEDEV__KUBERNETES__COMPATIBILITY="fake-gpu-operator",
            FAKEDEV__KUBERNETES__KUBECONFIG=str(tmp_path / "kubeconfig"),
        )
        options = ["--config", str(tmp_path / "fakedev.yaml"), "--ready-file", str(tmp_path / "ready.json")]
        program = start_async([*console("fakedev"), "serve", *options], environment=environment, folder=tmp_path)
        await ready(program, tmp_path / "ready.json")

        async def has(count: int) -> None:
            def is_so() -> bool:
                return api.get("nodes", "a")["status"]["capacity"].get("nvidia.com/gpu") == str(count)

            await eventually(is_so, f"the node has {count} GPUs")

        await has(2)
        await eventually(lambda: api.items("configmaps", "default"), "the ConfigMap of the node")
        mount(tmp_path / "mounted", 2, item["data"]["topology.yml"].replace("gpuCount: 2", "gpuCount: 6"))
        await has(6)
    finally:
        await api.stop()
